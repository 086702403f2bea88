"""The figure of a search: what it asked for over compute."""

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.style import (
    Figure,
    LeftOut,
    doublings_axis,
    finish,
    marks,
    panels,
    sequential,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.words.numbers import amount, short

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
    (axes,) = panels()
    doublings_axis(
        axes, "y", "rollouts per problem, n", (run.num_generations for run in data.plan.runs)
    )
    axes.set_xlabel("share of the grid's compute spent")
    for i, (milestone, color) in enumerate(
        zip(milestones, sequential(len(milestones)), strict=True)
    ):
        # Seeds of one n that are asked for at once are one mark.
        words: dict[tuple[float, int], list[str]] = {}
        for step in steps:
            if step.milestone == milestone:
                run = runs[step.run_id]
                why = f"{run.label}: {step.why} (value {step.value:.2g})"
                words.setdefault((step.spent / whole, run.num_generations), []).append(why)
        to = f"to {amount(milestone, data.plan.budget_unit)}"
        points = [(x, n, "\n".join([to, *why])) for (x, n), why in words.items()]
        size = _SMALLEST + (_LARGEST - _SMALLEST) * i / max(1, len(milestones) - 1)
        marks(axes, points, color, size=size, hollow=True, label=f"to {short(milestone)}")
    return finish(
        axes,
        "What the search trained, in order",
        f"{len(steps)} steps of {len({step.run_id for step in steps})} runs. Each mark trains a "
        "run of this n up to the compute that the legend names: the larger the mark, the further. "
        "Seeds and B chosen at the same time lie on each other.",
    )
