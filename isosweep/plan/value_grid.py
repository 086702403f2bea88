"""`search=tune`: the grid that is searched for the best value of one setting or two.

An anchor cell and a second one with more completions per step, each with every value of the
settings in `grid.axes` (the learning rate unless any is given), read at budgets half as large from
one to the next. The rest of the config is the sweep's own, so that the grid that comes after it
shares those of its runs that have the chosen value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.rules import rules_of

RATE = "recipe.learning_rate"
# Values tried where none are given: the recipe's own times these powers of two.
_POWERS = range(-3, 5)
# At fewer budgets a value that falls behind would not be seen to early enough; each is half of the
# next.
_BUDGETS = 4
_LEAST_VALUES, _MOST_SETTINGS = 3, 2
# Values closer than this have one place on the axis that they are compared on.
_APART = 1.001
_SEEDS, _LEAST_SEEDS = 3, 2
# Share of the compute of all values at all seeds that may be spent where no limit is given.
SHARE = 1 / 3


def tuned(config: SweepConfig) -> SweepConfig:
    """`config` with the grid of `search=tune` in the place of its own; others are as they were.

    Raises SettingError for settings and cells that cannot be tuned at.
    """
    if config.search.kind != "tune":
        return config
    axes = _axes(config)
    seeds = sorted(config.grid.seeds)[:_SEEDS]
    if len(seeds) < _LEAST_SEEDS:
        rule = f"search=tune compares {_LEAST_SEEDS} seeds or more of each value"
        raise SettingError("grid.seeds", config.grid.seeds, rule)
    config = replace(config, budget=_budgets(config.budgets))
    table = _candidates(config)
    cells = _cells(config, table)
    runs = len(cells) * math.prod(len(values) for values in axes.values())
    # A run may miss its budget by the tolerance.
    least = runs * _LEAST_SEEDS * _first(table, cells) * (1 + config.grid.tolerance)
    limit = config.search.max_compute
    if limit is None:
        limit = max(float(f"{SHARE * runs * len(seeds) * config.budgets[-1]:.6g}"), least)
    elif limit < least:
        rule = f"two seeds of every value to the smallest budget of each cell take {least:.6g}"
        raise SettingError("search.max_compute", limit, rule)
    grid = replace(
        config.grid,
        num_generations=sorted({n for n, _ in cells}),
        problems_per_batch=sorted({B for _, B in cells}),
        completions_per_step=sorted({n * B for n, B in cells}),
        seeds=seeds,
        axes=axes,
        composed=None,
    )
    search = replace(config.search, max_compute=limit, cells=[list(cell) for cell in cells])
    return replace(config, grid=grid, search=search)


def _axes(config: SweepConfig) -> dict[str, Any]:
    """The settings to tune, with their values ascending."""
    axes = config.grid.axes
    if not axes:
        rate = config.recipe.learning_rate
        return {RATE: [float(f"{rate * 2.0**power:.6g}") for power in _POWERS]}
    if len(axes) > _MOST_SETTINGS:
        rule = f"search=tune takes {_MOST_SETTINGS} settings at most (here {len(axes)})"
        raise SettingError("grid.axes", ", ".join(axes), rule)
    return {name: _numbers(name, axes) for name in axes}


def _numbers(name: str, axes: Mapping[str, Any]) -> list[float]:
    """The values of one of the axes, ascending."""
    values = axes[name]
    numbers = list(values) if isinstance(values, list | tuple) else []
    if "." not in name or any(
        isinstance(v, bool) or not isinstance(v, int | float) for v in numbers
    ):
        rule = "search=tune takes settings whose values are numbers, in a list"
        raise SettingError(f"grid.axes.{name}", values, rule)
    if not name.startswith("recipe."):
        rule = "search=tune takes settings of recipe: with others the rewards are no match"
        raise SettingError(f"grid.axes.{name}", values, rule)
    if (broken := _broken(numbers)) is not None:
        raise SettingError(f"grid.axes.{name}", values, broken)
    return sorted(numbers)


def _broken(numbers: list[float]) -> str | None:
    """The rule that an axis with these values breaks; None where it can be tuned."""
    ascending = sorted(numbers)
    if not all(map(math.isfinite, numbers)):
        return "search=tune takes finite numbers"
    if min(numbers, default=0) < 0:
        return "search=tune takes values of 0 or above"
    for low, high in pairwise(ascending):
        if high <= low * _APART:
            return f"search=tune takes values more than {_APART - 1:.1%} apart ({low!r}, {high!r})"
    if len(numbers) < _LEAST_VALUES:
        return f"search=tune takes {_LEAST_VALUES} values or more (here {len(numbers)})"
    return None


def _budgets(budgets: Sequence[float]) -> tuple[float, ...]:
    if len(budgets) >= _BUDGETS:
        return tuple(budgets)
    return tuple(budgets[-1] / 2.0**step for step in reversed(range(_BUDGETS)))


def _candidates(config: SweepConfig) -> Candidates:
    """The candidates of the cells that are given, or else of the sweep's own grid; without axes."""
    grid = replace(config.grid, axes=None, composed=None)
    if config.search.cells is not None:
        n, B = (sorted(set(each)) for each in zip(*config.search.cells, strict=True))
        grid = replace(grid, num_generations=n, problems_per_batch=B, completions_per_step=None)
    variant = Variant(axes={}, config=replace(config, grid=grid))
    (table,) = enumerate_candidates([variant])
    return table


def _cells(config: SweepConfig, table: Candidates) -> list[tuple[int, int]]:
    """The anchor and the second cell; the anchor alone where no other is planned."""
    if config.search.cells is None:
        return _default_cells(table)
    cells = sorted(((n, B) for n, B in config.search.cells), key=math.prod)
    for n, B in cells:
        place = Place(*table.pair(n, B), len(table.budgets) - 1)
        if broken := rules_of(int(table.broken[place])):
            rule = f"n = {n}, B = {B} is not planned at {config.budgets[-1]:g}: "
            rule += f"{broken[0].setting}: {broken[0].reason(table.at(place))}"
            raise SettingError("search.cells", config.search.cells, rule)
    return cells


def _first(table: Candidates, cells: Sequence[tuple[int, int]]) -> float:
    """The smallest budget at which all cells are planned."""
    first = max(int(table.feasible[table.pair(*cell)].argmax()) for cell in cells)
    return float(table.budgets[first])


def _default_cells(table: Candidates) -> list[tuple[int, int]]:
    """At the B with most n: the n a third of the way up, and the largest, of those that are planned
    at the most budgets that two n are; the largest budget is one of them."""
    last = table.feasible[:, :, -1]
    counts = np.where(last, table.feasible.sum(axis=2), 0)  # (N, M)
    found = last
    for least in range(1, len(table.budgets) + 1):
        if ((counts >= least).sum(axis=0) > 1).any():
            found = counts >= least
    if not found.any():
        # The planner says why.
        return [(int(table.num_generations[0]), int(table.problems_per_batch[0]))]
    j = int(found.sum(axis=0).argmax())
    generations = table.num_generations[found[:, j]].tolist()
    B = int(table.problems_per_batch[j])
    chosen = dict.fromkeys([generations[(len(generations) - 1) // 3], generations[-1]])
    return [(n, B) for n in chosen]
