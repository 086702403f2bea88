"""Figures of a tuned setting: reward by value, at both cells and over compute, and the search."""

from collections.abc import Sequence

from isosweep.analysis.course import Course
from isosweep.analysis.figures.colors import BLUE, RED, sequential
from isosweep.analysis.figures.description import Axis, Figure, Series, series_of
from isosweep.analysis.figures.search import steps_asked
from isosweep.analysis.statistics.best_values import TunedAt, Tuning
from isosweep.analysis.tuned import Scale, TunedCell
from isosweep.words.numbers import UNITS, short


def tuning_figures(
    tuning: Tuning, cells: Sequence[TunedCell], course: Course | None
) -> dict[str, Figure]:
    """By name, in the page's order; none without records."""
    if not tuning.cells:
        return {}
    scale = cells[0].scales[0]
    figures = {"tuning_reward": _reward_figure(tuning, scale)}
    for number, at in enumerate(tuning.cells, start=1):
        figures[f"tuning_budgets_{number}"] = _budgets_figure(tuning, at, scale)
    if course is not None and course.steps:
        figures["tuning_decisions"] = _decisions_figure(tuning, cells, course)
    return figures


def cell_label(at: TunedAt) -> str:
    """`n = 8, B = 4`."""
    return f"n = {at.num_generations}, B = {at.problems_per_batch}"


def _value_axis(scale: Scale) -> Axis:
    room = (scale.values[-1] / scale.values[0]) ** 0.06 if scale.logarithmic else 1.0
    span = 0.05 * (scale.values[-1] - scale.values[0])
    low, high = scale.values[0], scale.values[-1]
    limits = (low / room, high * room) if scale.logarithmic else (low - span, high + span)
    shown = scale.values[:: len(scale.values) // 9 + 1]
    return Axis(
        title=scale.setting,
        log=scale.logarithmic,
        ticks=tuple((value, short(value)) for value in shown),
        limits=limits,
    )


def _series(tuning: Tuning, at: TunedAt, scale: Scale, *, label: str, color: str) -> Series:
    unit = UNITS[tuning.unit]
    return series_of(
        at.tried,
        lambda tried: tried.values[scale.setting],
        lambda tried: tried.mean if tried.expected is None else tried.expected,
        ends=lambda tried: tried.interval,
        text=lambda tried: (
            f"{cell_label(at)} at {short(at.budget)} {unit}\n"
            + " ".join(f"{name}={value:g}" for name, value in tried.values.items())
            + f"\nmeasured {tried.mean:.3f} over {tried.num_seeds} seeds"
            + (f", {tried.num_fallen} fell" if tried.num_fallen else "")
        ),
        label=label,
        color=color,
        width=1.6,
        marker="circle",
    )


def _reward_figure(tuning: Tuning, scale: Scale) -> Figure:
    """Both cells at the largest budget."""
    series = [
        _series(tuning, at, scale, label=cell_label(at), color=color)
        for at, color in zip(tuning.cells, (BLUE, RED), strict=False)
    ]
    return Figure(
        title="Reward by value at the largest budget",
        caption="Expected reward of a new run with each value that was trained to the largest "
        f"budget, with {tuning.confidence:.0%} intervals.",
        x=_value_axis(scale),
        y=Axis(title="held-out reward"),
        series=tuple(series),
    )


def _budgets_figure(tuning: Tuning, last: TunedAt, scale: Scale) -> Figure:
    """One cell at every budget."""
    mine = [at for at in (*tuning.courses, last) if cell_label(at) == cell_label(last)]
    unit = UNITS[tuning.unit]
    return Figure(
        title=f"Reward by value over compute, {cell_label(last)}",
        caption="Expected reward at each budget. A value without a point at a larger budget was "
        "not trained that far: it was behind, had collapsed, or the compute was spent.",
        x=_value_axis(scale),
        y=Axis(title="held-out reward"),
        series=tuple(
            _series(tuning, at, scale, label=f"{short(at.budget)} {unit}", color=color)
            for at, color in zip(mine, sequential(len(mine)), strict=True)
        ),
    )


def _decisions_figure(tuning: Tuning, cells: Sequence[TunedCell], course: Course) -> Figure:
    """Every step that was asked for: the value over the compute spent by then."""
    scale = cells[0].scales[0]
    known = {
        run.run_id: (cell, cell.values_at(run)[scale.setting])
        for cell in cells
        for run in cell.plan.runs
    }
    whole = sum(run.milestones[-1] for cell in cells for run in cell.plan.runs)
    milestones = sorted({m for cell in cells for run in cell.plan.runs for m in run.milestones})
    series = []
    for cell, color in zip(cells, (BLUE, RED), strict=False):
        mine = [s for s in course.steps if s.run_id in known and known[s.run_id][0] is cell]
        for milestone in milestones:
            points = [
                (
                    step.spent / whole,
                    known[step.run_id][1],
                    f"to {short(milestone)}: {step.why}",
                )
                for step in mine
                if step.milestone == milestone
            ]
            if points:
                of = f"{cell.label} "
                marks = steps_asked(points, milestone, milestones, color, smallest=6.0, of=of)
                series.append(marks)
    return Figure(
        title="What was trained, in order",
        caption="Each mark trains a run with this value up to the compute that the legend names: "
        "the larger the mark, the further. Seeds chosen at the same time lie on each other.",
        x=Axis(title="share of the compute of all values at all seeds"),
        y=_value_axis(scale),
        series=tuple(series),
    )
