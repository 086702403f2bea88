"""What the figures share: axes, the colours of n, and what pointing at a run shows."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.colors import GREY, sequential
from isosweep.analysis.figures.description import Axis, Series
from isosweep.analysis.statistics.frontier import Choice
from isosweep.compute import BudgetUnit
from isosweep.words.numbers import UNITS, short
from isosweep.words.numbers import amount as written

_Value = TypeVar("_Value")
_Number = TypeVar("_Number", int, float)


def generation_colors(generations: Sequence[int]) -> dict[int, str]:
    """One colour for each n, dark to light."""
    return dict(zip(generations, sequential(len(generations)), strict=True))


def amount(data: SweepData, value: float) -> str:
    """Compute with its unit."""
    return written(value, data.plan.budget_unit)


def evenly_chosen(values: Sequence[_Value], most: int) -> tuple[_Value, ...]:
    """At most `most` of the values: the first, the last, and evenly between."""
    if len(values) <= most:
        return tuple(values)
    return tuple(values[round(i * (len(values) - 1) / (most - 1))] for i in range(most))


def some_of(shown: Sequence[object], of: Sequence[object], what: str) -> str:
    """A sentence on how many are shown, after another; none where all are."""
    return "" if len(shown) == len(of) else f" {len(shown)} of {len(of)} {what}."


def spaced(values: Iterable[_Number], room: float) -> list[_Number]:
    """Of the values, ascending, those that lie apart by the factor `room`; the last is kept."""
    kept: list[_Number] = []
    # From the right: a budget is never left out for a power of ten.
    for value in sorted(values, reverse=True):
        if not kept or value * room <= kept[-1] * (1 + 1e-9):
            kept.append(value)
    return kept[::-1]


# Mantissas of ticks, from few to many.
_MANTISSAS = ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10)))


def round_ticks(low: float, high: float, most: int) -> tuple[tuple[float, str], ...]:
    """Ticks of a logarithmic axis at round numbers, 1e19 and 3e19, `most` of them or fewer.

    Every so many powers of ten where those are more; the ends themselves where none lies between.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    chosen: list[float] = []
    for mantissas in _MANTISSAS:
        values = [m * 10.0**power for power in decades for m in mantissas]
        inside = [value for value in values if low <= value <= high]
        if len(inside) > most and chosen:
            break
        chosen = inside
    if len(chosen) < 2:
        chosen = sorted({float(f"{low:.2g}"), *chosen, float(f"{high:.2g}")})
    # Every second power of ten, or third, where there are many.
    return tuple((value, short(value)) for value in chosen[:: math.ceil(len(chosen) / most)])


def compute_axis(data: SweepData, drawn: Iterable[float] = ()) -> Axis:
    """Compute on a logarithmic axis, from the first record to the last, or of what is `drawn`."""
    unit = data.plan.budget_unit
    if shown := [value for value in drawn if value > 0]:
        return along_compute(unit, (min(shown) / 1.15, max(shown) * 1.15))
    budgets = sorted(data.plan.budgets)
    spent = [float(value) for curve in data.curves for value in curve.compute if value > 0]
    first, last = min([*spent, budgets[0]]), max([*spent, budgets[-1]])
    return along_compute(unit, (first / 1.15, last * 1.15))


def budget_axis(data: SweepData) -> Axis:
    """As `compute_axis`, from the first budget to the last."""
    budgets = sorted(data.plan.budgets)
    return along_compute(data.plan.budget_unit, (budgets[0] / 1.3, budgets[-1] * 1.3))


def along_compute(unit: BudgetUnit, ends: tuple[float, float]) -> Axis:
    """Compute on a logarithmic axis between `ends`."""
    # Eight labels fit side by side, where a page is narrow.
    return Axis(
        title=f"training compute per run ({UNITS[unit]})",
        log=True,
        ticks=round_ticks(*ends, 8),
        limits=ends,
    )


def doubling_axis(title: str, values: Iterable[int]) -> Axis:
    """n or B on a logarithmic axis, with a tick at each of the values."""
    ordered = sorted(set(values))
    # Fourteen labels fit side by side.
    room = (ordered[-1] / ordered[0]) ** (1 / 14)
    return Axis(
        title=title,
        log=True,
        ticks=tuple((float(value), str(value)) for value in spaced(ordered, room)),
        limits=(ordered[0] / 1.3, ordered[-1] * 1.3),
    )


def generations_axis(generations: Iterable[int]) -> Axis:
    """The axis of n, in doublings."""
    return doubling_axis("rollouts per problem, n", generations)


def rewarded(data: SweepData) -> str:
    """What the reward is: held-out, or on one of the further evaluation sets."""
    name = data.evaluation_set
    return "held-out reward" if name is None else f"reward on the set {name}"


def problems_of(data: SweepData) -> str:
    """Which problems count."""
    name = data.evaluation_set
    return "held-out problems" if name is None else f"problems of the set {name}"


def reward_axis(data: SweepData) -> Axis:
    """The axis of reward, by the metric of `data`."""
    return Axis(title=f"{rewarded(data)} ({data.metric}@k)")


def level(x: tuple[float, float], y: float, label: str | None, color: str = GREY) -> Series:
    """A dashed line at one height."""
    return Series(x=x, y=(y, y), label=label, color=color, dash="dash")


def record_texts(data: SweepData, curve: Curve, places: Iterable[int]) -> tuple[str, ...]:
    """What pointing at records of a run shows: the run, how far it was, and its reward."""
    run = curve.run
    which = (
        f"run {run.run_id}\nn={run.num_generations}, B={run.problems_per_batch}, seed {run.seed}\n"
    )
    return tuple(
        f"{which}T={curve.steps[i]}, {amount(data, curve.compute[i])}\nreward {curve.reward[i]:.4f}"
        for i in places
    )


def choice_text(data: SweepData, budget: float, choice: Choice) -> str:
    """What pointing at the best cell of an n shows: the cell, and its rewards."""
    text = (
        f"n={choice.num_generations}, B={choice.cell.problems_per_batch}, "
        f"T={choice.cell.num_steps}, {amount(data, budget)}\n"
    )
    if choice.expected is None or choice.interval is None:
        return text + f"measured {choice.cell.mean:.4f}"
    low, high = choice.interval
    return text + (
        f"expected {choice.expected:.4f} ({low:.4f} to {high:.4f})\nmeasured {choice.cell.mean:.4f}"
    )
