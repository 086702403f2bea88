"""Figures of a tuned setting: reward by value, at both cells and over compute, and the search."""

from collections.abc import Sequence

from isosweep.analysis.course import Course
from isosweep.analysis.figures.colors import BLUE, RED, sequential
from isosweep.analysis.figures.description import Axis, Figure, Series
from isosweep.analysis.statistics.best_values import Tried, TunedAt, Tuning
from isosweep.analysis.tuned import Scale, TunedCell
from isosweep.words.numbers import UNITS, short

# Marks of the smallest and the largest milestone.
_SMALL, _LARGE = 6.0, 15.0


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
    def shown(tried: Tried) -> float:
        return tried.mean if tried.expected is None else tried.expected

    unit = UNITS[tuning.unit]
    return Series(
        x=tuple(tried.values[scale.setting] for tried in at.tried),
        y=tuple(shown(tried) for tried in at.tried),
        low=tuple(tried.interval[0] if tried.interval else None for tried in at.tried),
        high=tuple(tried.interval[1] if tried.interval else None for tried in at.tried),
        text=tuple(
            f"{cell_label(at)} at {short(at.budget)} {unit}\n"
            + " ".join(f"{name}={value:g}" for name, value in tried.values.items())
            + f"\nmeasured {tried.mean:.3f} over {tried.num_seeds} seeds"
            + (f", {tried.num_fallen} fell" if tried.num_fallen else "")
            for tried in at.tried
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
        caption="Reward to expect of a new run with each value that was trained to the largest "
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
        caption="Reward to expect at each budget. A value without a point at a larger budget was "
        "not trained that far: it had fallen behind or collapsed, or the compute was spent.",
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
        for place, milestone in enumerate(milestones):
            steps = [
                step
                for step in course.steps
                if step.milestone == milestone
                and step.run_id in known
                and known[step.run_id][0] is cell
            ]
            if steps:
                share = place / max(1, len(milestones) - 1)
                series.append(
                    Series(
                        x=tuple(step.spent / whole for step in steps),
                        y=tuple(known[step.run_id][1] for step in steps),
                        text=tuple(f"to {short(step.milestone)}: {step.why}" for step in steps),
                        label=f"{cell.label} to {short(milestone)}",
                        color=color,
                        dash=None,
                        marker="circle-open",
                        size=_SMALL + (_LARGE - _SMALL) * share,
                    )
                )
    return Figure(
        title="What was asked for",
        caption="Each mark trains a run with this value up to the compute that the legend names; "
        "the larger the mark, the further. Seeds asked for at once lie on each other.",
        x=Axis(title="share of the compute of all values at all seeds"),
        y=_value_axis(scale),
        series=tuple(series),
    )
