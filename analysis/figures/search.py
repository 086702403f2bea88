"""Figures of a search: what it asked for over compute, and what was known when."""

from collections.abc import Sequence

from isosweep.analysis.course import Course, KnownThen
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import amount, generations_axis
from isosweep.analysis.figures.colors import BLUE, GREEN, GREY, INK, RED, sequential
from isosweep.analysis.figures.description import (
    Axis,
    Dash,
    Figure,
    LeftOut,
    Point,
    ReportFigure,
    Series,
    points_of,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.words.numbers import short

# Marks of the smallest and the largest milestone.
_SMALLEST, _LARGEST = 5.0, 15.0
# Verdicts whose chance was never higher are left out.
_SHOWN = 0.05
_LINES: tuple[tuple[str, Dash], ...] = (
    (BLUE, "solid"),
    (RED, "solid"),
    (GREEN, "solid"),
    (INK, "dash"),
    (GREY, "dash"),
    (BLUE, "dot"),
    (RED, "dot"),
    (GREEN, "dot"),
)
_NO_SEARCH = LeftOut(reason="no search chose what was trained")


def decisions_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Every step that the search asked for: n over the compute spent by then."""
    del findings
    if data.course is None:
        return _NO_SEARCH
    runs = {run.run_id: run for run in data.plan.runs}
    steps = [step for step in data.course.steps if step.run_id in runs]
    if not steps:
        return LeftOut(reason="the search has asked for nothing yet")
    whole = _whole(data)
    milestones = sorted({step.milestone for step in steps})
    series = []
    for milestone, color in zip(milestones, sequential(len(milestones)), strict=True):
        # Seeds of one n that are asked for at once are one mark.
        marks: dict[tuple[float, int], list[str]] = {}
        for step in steps:
            if step.milestone == milestone:
                run = runs[step.run_id]
                line = f"{run.label}: {step.why} (value {step.value:.2g})"
                marks.setdefault((step.spent / whole, run.num_generations), []).append(line)
        points = [
            (share, float(n), "\n".join([f"to {amount(data, milestone)}, at {share:.0%}", *lines]))
            for (share, n), lines in marks.items()
        ]
        series.append(_steps_to(milestone, milestones, points, color))
    asked = {step.run_id for step in steps}
    return Figure(
        title="What the search trained, in order",
        caption=f"{len(steps)} steps of {len(asked)} runs. Each mark trains a run of this n up to "
        "the compute that the legend names: the larger the mark, the further. Seeds and B chosen "
        "at the same time lie on each other.",
        x=_spent_axis(data.course, whole),
        y=generations_axis(run.num_generations for run in data.plan.runs),
        series=tuple(series),
    )


def _steps_to(
    milestone: float, milestones: Sequence[float], points: Sequence[Point], color: str
) -> Series:
    """Marks of steps up to one of the milestones, the larger the further."""
    share = milestones.index(milestone) / max(1, len(milestones) - 1)
    return points_of(
        points,
        label=f"to {short(milestone)}",
        color=color,
        dash=None,
        marker="circle-open",
        size=_SMALLEST + (_LARGEST - _SMALLEST) * share,
    )


def known_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Chances of each verdict over the compute spent."""
    del findings
    course = data.course
    if course is None:
        return _NO_SEARCH
    if not course.known:
        return LeftOut(reason="the search has not written down what it believed")
    whole = _whole(data)
    names = list(dict.fromkeys(name for known in course.known for name in known.chances))
    shown = [n for n in names if max(k.chances.get(n, 0.0) for k in course.known) > _SHOWN]

    def point(known: KnownThen, name: str) -> Point:
        share, chance = known.spent / whole, known.chances.get(name, 0.0)
        lost = "" if known.loss is None else f"\nexpected loss {known.loss:.2g}"
        return share, chance, f"{name}: {chance:.0%} at {share:.0%}{lost}"

    series = [
        points_of(
            [point(known, name) for known in course.known],
            label=name,
            color=color,
            dash=dash,
            width=1.8,
            marker="circle",
            size=5,
        )
        for name, (color, dash) in zip(shown, _LINES, strict=False)
    ]
    losses = [known.loss for known in course.known if known.loss is not None]
    lost = (
        f" Expected loss of the n that seemed best, at the budget where it is largest: "
        f"{losses[0]:.2g} of reward at first, {losses[-1]:.2g} at the end."
        if losses
        else ""
    )
    return Figure(
        title="Probability of each verdict during the search",
        caption=f"Probability of each verdict at the time of each decision.{lost}",
        x=_spent_axis(course, whole),
        y=Axis(title="probability of each verdict", limits=(-0.03, 1.03)),
        series=tuple(series),
    )


def _whole(data: SweepData) -> float:
    """Compute of the whole grid, all variants, in the unit that the search counts in."""
    return float(sum(run["milestones"][-1] for run in data.plan_document["runs"]))


def _spent_axis(course: Course, whole: float) -> Axis:
    spent = [step.spent for step in course.steps] + [known.spent for known in course.known]
    last = max(spent, default=0.0) / whole
    return Axis(
        title="share of the grid's compute spent",
        limits=(-0.04 * max(last, 0.01), 1.06 * max(last, 0.01)),
    )


FIGURES = (
    ReportFigure(name="decisions", section="Search", describe=decisions_figure),
    ReportFigure(name="known_when", section="Search", describe=known_figure),
)
