"""How the devices of runs are split between a generator and its trainer, as numbers."""

from collections.abc import Iterable, Iterator

import numpy as np

from isosweep.costs.steps import Floats
from isosweep.plan.candidates import Candidates
from isosweep.plan.document import OverlapPlan, SplitOfN


def overlaps(tables: Iterable[Candidates]) -> Iterator[OverlapPlan]:
    """The split of each variant whose devices are split, and the best one for each n."""
    for table in tables:
        if table.in_turn is None or not table.feasible.any():
            continue
        config, sampling = table.config, table.config.generation.overlapping
        rows = [row for row in range(len(table.num_generations)) if table.feasible[row].any()]
        yield OverlapPlan(
            axes=table.variant.axes,
            devices=config.devices_taken,
            in_turn=config.hardware.devices_per_run,
            sampling=sampling,
            of_in_turn=_of_in_turn(table, table.splits[sampling], rows),
            splits=tuple(_split_of(table, sampling, row) for row in rows),
        )


def _split_of(table: Candidates, sampling: int, row: int) -> SplitOfN:
    best = min(table.splits, key=lambda devices: _hours(table, table.splits[devices], [row]))
    return SplitOfN(
        num_generations=int(table.num_generations[row]),
        best=best,
        best_of_in_turn=_of_in_turn(table, table.splits[best], [row]),
        planned_of_in_turn=_of_in_turn(table, table.splits[sampling], [row]),
    )


def _of_in_turn(table: Candidates, seconds: Floats, rows: list[int]) -> float | None:
    assert table.in_turn is not None
    in_turn = _hours(table, table.in_turn, rows)
    return _hours(table, seconds, rows) / in_turn if np.isfinite(in_turn) else None


def _hours(table: Candidates, seconds: Floats, rows: list[int]) -> float:
    """Hours of all planned steps of these n, each B at its largest budget, by `seconds` a step."""
    last = np.maximum(table.longest, 0)[..., None]
    steps = np.take_along_axis(table.steps, last, axis=-1)[..., 0]
    planned = table.longest[rows] >= 0
    return float((steps[rows][planned] * seconds[rows][planned]).sum()) / 3600
