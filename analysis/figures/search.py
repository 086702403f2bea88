"""The figure of a search: what it asked for over compute."""

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.canvas import (
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    compute_words,
)
from isosweep.analysis.figures.colors import sequential
from isosweep.analysis.statistics.findings import Findings
from isosweep.words.numbers import short

# Marks of the smallest and the largest milestone.
_SMALLEST, _LARGEST = 4.0, 12.0


def decisions_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Every step that the search asked for: n over the compute spent by then."""
    del findings
    if data.course is None:
        return LeftOut(reason="no search chose what was trained")
    runs = {run.run_id: run for run in data.plan.runs}
    steps = [step for step in data.course.steps if step.run_id in runs]
    if not steps:
        return LeftOut(reason="the search has asked for nothing yet")
    # Compute of the whole grid, all variants, in the unit that the search counts in.
    whole = float(sum(run["milestones"][-1] for run in data.plan_document["runs"]))
    milestones = sorted({step.milestone for step in steps})

    def draw(canvas: Canvas) -> None:
        canvas.generations("y", (run.num_generations for run in data.plan.runs))
        canvas.axes.set_xlabel("share of the grid's compute spent")
        for i, (milestone, color) in enumerate(
            zip(milestones, sequential(len(milestones)), strict=True)
        ):
            # Seeds of one n that are asked for at once are one mark.
            marks: dict[tuple[float, int], list[str]] = {}
            for step in steps:
                if step.milestone == milestone:
                    run = runs[step.run_id]
                    line = f"{run.label}: {step.why} (value {step.value:.2g})"
                    marks.setdefault((step.spent / whole, run.num_generations), []).append(line)
            points = [
                (x, float(n), "\n".join([f"to {compute_words(data, milestone)}", *lines]))
                for (x, n), lines in marks.items()
            ]
            share = i / max(1, len(milestones) - 1)
            size = _SMALLEST + (_LARGEST - _SMALLEST) * share
            canvas.marks(points, color, size=size, hollow=True, label=f"to {short(milestone)}")

    asked = {step.run_id for step in steps}
    return Figure(
        title="What the search trained, in order",
        caption=f"{len(steps)} steps of {len(asked)} runs. Each mark trains a run of this n up to "
        "the compute that the legend names: the larger the mark, the further. Seeds and B chosen "
        "at the same time lie on each other.",
        draw=(draw,),
    )


FIGURES = (ReportFigure(name="decisions", section="Search", describe=decisions_figure),)
