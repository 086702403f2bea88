"""Settings in the place of n and B: one cell's runs as a sweep over the values of its settings.

What the reward surface, the frontier and a search know of n holds of any number that rewards vary
smoothly with: the best one, what cannot be told from it, what a further run would tell. So a sweep
that tries values of one setting, or of two, at a cell is seen as a sweep over n, or n and B, whose
places on the axis are those of the values: log2 of their ratios to the smallest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.pairs import Pair, Paired
from isosweep.plan.cells import Cell, Plan, PlannedRun

# The smallest value's place in n, 2 to this power: rounding to whole n then moves no other one by
# more than a thousandth of a doubling.
_FINENESS = 10


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Values of one setting, ascending, and the whole numbers that stand for them."""

    setting: str
    values: tuple[float, ...]

    @property
    def logarithmic(self) -> bool:
        """Whether distances are ratios; with a 0 among the values they are steps of the list."""
        return self.values[0] > 0

    @cached_property
    def places(self) -> tuple[int, ...]:
        """What stands for each value."""
        if not self.logarithmic:
            return tuple(2 ** (_FINENESS + step) for step in range(len(self.values)))
        return tuple(round(2**_FINENESS * value / self.values[0]) for value in self.values)

    def place_of(self, value: float) -> int:
        """What stands for one of the values."""
        return self.places[self.values.index(value)]

    def value_of(self, place: float) -> float:
        """The value at a place on the axis, between two of them by its distance to both."""
        log2_place = math.log2(place)
        if self.logarithmic:
            return float(self.values[0] * 2.0 ** (log2_place - _FINENESS))
        step = min(max(log2_place - _FINENESS, 0.0), len(self.values) - 1.0)
        low = min(int(step), len(self.values) - 2) if len(self.values) > 1 else 0
        high = min(low + 1, len(self.values) - 1)
        return self.values[low] + (step - low) * (self.values[high] - self.values[low])

    def text(self, value: float) -> str:
        """`learning_rate=0.0003`."""
        return f"{self.setting.rpartition('.')[2]}={value:g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class TunedCell:
    """One cell's runs over the values of `scales`, one or two.

    `cell`: its n and B. `data`: its plan, curves and readings with the first setting in n's place
    and the second, or 1, in B's.
    """

    cell: Pair
    scales: tuple[Scale, ...]
    data: SweepData

    @property
    def plan(self) -> Plan:
        """Of the cell's runs."""
        return self.data.plan

    @property
    def label(self) -> str:
        """`n=8 B=4`."""
        return f"n={self.cell.num_generations} B={self.cell.problems_per_batch}"

    def values_at(self, pair: Paired) -> dict[str, float]:
        """The settings that have these places, by name."""
        return {
            scale.setting: scale.values[scale.places.index(place)]
            for scale, place in zip(
                self.scales, (pair.num_generations, pair.problems_per_batch), strict=False
            )
        }


def scales_of(plan: Plan) -> tuple[Scale, ...]:
    """The settings of `grid.axes`, with the values that the plan has of each."""
    names = list(dict.fromkeys(name for run in plan.runs for name in run.axes))
    return tuple(
        Scale(setting=name, values=tuple(sorted({float(run.axes[name]) for run in plan.runs})))
        for name in names
    )


def tuned_cells(plan: Plan, datas: Sequence[SweepData]) -> tuple[TunedCell, ...]:
    """The plan's cells, in the order of their completions; `datas`: of all its variants."""
    scales = scales_of(plan)
    cells = sorted({Pair.of(run) for run in plan.runs}, key=lambda pair: math.prod(pair))
    return tuple(_tuned(cell, scales, plan, datas) for cell in cells)


def _tuned(
    cell: Pair, scales: tuple[Scale, ...], plan: Plan, datas: Sequence[SweepData]
) -> TunedCell:
    curves = [
        replace(curve, run=_placed_run(curve.run, scales))
        for curve in _in_order(plan, [curve for data in datas for curve in data.curves])
        if Pair.of(curve.run) == cell
    ]
    readings = [
        replace(reading, cell=_placed_cell(reading.cell, scales))
        for data in datas
        for reading in data.readings
        if Pair.of(reading.cell) == cell
    ]
    own = replace(
        plan,
        runs=tuple(curve.run for curve in curves),
        cells=tuple(reading.cell for reading in readings),
        rejected=(),
        budgets=tuple(sorted({reading.cell.budget for reading in readings})),
    )
    data = replace(datas[0], plan=own, curves=tuple(curves), readings=tuple(readings))
    return TunedCell(cell=cell, scales=scales, data=data)


def _in_order(plan: Plan, curves: Iterable[Curve]) -> list[Curve]:
    by_run = {curve.run.run_id: curve for curve in curves}
    return [by_run[run.run_id] for run in plan.runs]


def _placed_run(run: PlannedRun, scales: Sequence[Scale]) -> PlannedRun:
    n, B = _places(run.axes, scales)
    return replace(run, num_generations=n, problems_per_batch=B, axes={})


def _placed_cell(cell: Cell, scales: Sequence[Scale]) -> Cell:
    n, B = _places(cell.axes, scales)
    return replace(cell, num_generations=n, problems_per_batch=B, axes={})


def _places(axes: Mapping[str, Any], scales: Sequence[Scale]) -> tuple[int, int]:
    places = [scale.place_of(float(axes[scale.setting])) for scale in scales]
    return places[0], places[1] if len(places) > 1 else 1
