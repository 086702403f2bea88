"""What sweeps like a plan find, from a table of simulated sweeps; nothing is simulated to read it.

`benchmarks/find_table.py` makes the table, `findable.json`, and says what its sweeps are.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.analysis.bounds import Share
from isosweep.analysis.readings import has_begun, rungs_of
from isosweep.config.analysis import AnalysisConfig
from isosweep.evidence import MIN_GENERATIONS
from isosweep.plan.cells import Plan

TABLE = Path(__file__).with_name("findable.json")
# k of avg@k in the table.
SAMPLES = 8
# Settings of the analysis that the table was made with: with others a sweep finds more or less.
JUDGED_BY: Mapping[str, float | str] = {
    "quantity": "enough",
    "confidence": 0.9,
    "margin": 0.02,
    "growth_bound": 0.5,
}
# Values of the fields of `Design` in the table.
GRID: Mapping[str, tuple[float, ...]] = {
    # In between shares are about linear in its logarithm: 4 runs of each n are within chance of it.
    "runs_of_each_n": (2, 8),
    "problems": (128, 724, 4096),
    "below": (2, 4, 6),
    "headroom": (1, 2),
    "decades": (2, 3),
}
# Fields in which more is never less: what the table has otherwise is chance.
_MORE = ("runs_of_each_n", "problems", "headroom")
# Interpolated over their logarithm.
_LOGARITHMIC = ("runs_of_each_n", "problems")
# What is true of a world, and by which field of `Findable` it counts.
TRUE = {"saturated": "ends", "growing": "goes_on"}
# Of a kind of world: sweeps, and of these those with a right verdict surely, with a right one, and
# with a false one.
COUNTS = ("sweeps", "surely", "probably", "falsely")


@dataclass(frozen=True, kw_only=True)
class Design:
    """What of a sweep decides how much it finds.

    `runs_of_each_n`: seeds x B, on average over n (two seeds of two B find about as much as four
    seeds of one). `problems`: held-out ones of avg@8, as which two of avg@4 count as one.
    `below`: doublings from the smallest n to the one at which growth ends; `headroom`: from there
    to the largest. `decades`: factors of ten of compute over which runs are read.
    """

    runs_of_each_n: float
    problems: float
    below: float
    headroom: float
    decades: float


@dataclass(frozen=True, kw_only=True)
class Odds:
    """Shares of simulated sweeps, by their verdict."""

    surely: Share
    """It says what the n that is judged does in the end, and rightly."""
    probably: Share
    """The same, verdicts that are only probable included."""
    falsely: Share
    """It says what is not so."""


@dataclass(frozen=True, kw_only=True)
class Findable:
    """What sweeps of one design find."""

    ends: Odds
    """In worlds where the smallest n that is good enough grows and stops."""
    goes_on: Odds
    """In worlds where it still grows at the largest budgets."""


def read_budgets(plan: Plan, config: AnalysisConfig) -> tuple[float, ...]:
    """Budgets, ascending, at which an analysis by `config` reads three n or more of finished runs.

    Those of the plan, and its ladder of smaller ones (`analysis.readings`).
    """
    own = {b: {c.num_generations for c in plan.cells if c.budget == b} for b in plan.budgets}
    longest = {cell.run_id: cell for cell in sorted(plan.cells, key=lambda cell: cell.budget)}
    for rung in rungs_of(plan, config.readings_per_decade, config.decades):
        own[rung] = {
            cell.num_generations
            for cell in longest.values()
            if rung < cell.budget and has_begun(cell, rung)
        }
    return tuple(sorted(budget for budget, n in own.items() if len(n) >= MIN_GENERATIONS))


def design_of(plan: Plan, config: AnalysisConfig, problems: float, ends_at: float) -> Design:
    """What decides how much `plan`, of one combination of `grid.axes`, finds where growth ends at
    n = `ends_at`.

    `problems`: of avg@8, as in `Design`. The plan is read at three budgets or more.
    """
    generations = sorted({run.num_generations for run in plan.runs})
    read = read_budgets(plan, config)
    return Design(
        runs_of_each_n=len(plan.runs) / len(generations),
        problems=problems,
        below=math.log2(ends_at / generations[0]),
        headroom=math.log2(generations[-1] / ends_at),
        decades=math.log10(read[-1] / read[0]),
    )


def findable(design: Design) -> Findable:
    """Shares for `design`, between those of the table; outside of it those of its nearest edge."""
    kinds = {}
    for kind, table in _tables().items():
        # The last axis is what is counted; each of the others is left out by one step.
        shares = table
        for name, value in asdict(design).items():
            low, way = _place(name, value)
            shares = (1 - way) * shares[low] + way * shares[low + 1]
        kinds[kind] = Odds(**dict(zip(COUNTS[1:], shares.tolist(), strict=True)))
    return Findable(**kinds)


def below_the_table(design: Design) -> tuple[str, ...]:
    """What `design` has less of than all of the table has: its shares are upper bounds then."""
    wanted = asdict(design)
    names = ("runs_of_each_n", "problems", "decades")
    return tuple(name for name in names if wanted[name] < GRID[name][0] * 0.9)


def nearest_in_the_table(design: Design) -> dict[str, float]:
    """Of `below` and `decades` those that the table has at its edge where `design` lies clearly
    beyond: whether more of them shows more depends on the rest."""
    wanted = asdict(design)
    edges = {}
    for name in ("below", "decades"):
        edge = min(max(wanted[name], GRID[name][0]), GRID[name][-1])
        beyond = wanted[name] > edge or name == "below"
        if beyond and abs(wanted[name] - edge) > 0.5:
            edges[name] = edge
    return edges


def sweeps_of_an_entry() -> int:
    """Sweeps of each kind that the shares of a design were counted in, on average."""
    return int(np.mean([_counts(kind)[..., 0] for kind in TRUE.values()]).round())


def _place(name: str, value: float) -> tuple[int, float]:
    """The value of `GRID` below, and the share of the way from there to the next."""
    known = GRID[name]
    value = min(max(value, known[0]), known[-1])
    low = max(place for place in range(len(known) - 1) if known[place] <= value)
    first, last = known[low], known[low + 1]
    if name in _LOGARITHMIC:
        first, last, value = math.log(first), math.log(last), math.log(value)
    return low, (value - first) / (last - first)


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def _counts(kind: str) -> np.ndarray:
    """`COUNTS` by place in `GRID`, (*its shape, 4)."""
    shape = [len(values) for values in GRID.values()]
    return np.array(_document()["counts"][kind], float).reshape(*shape, len(COUNTS))


@cache
def _tables() -> dict[str, np.ndarray]:
    """Shares of each kind by place in `GRID`, with what chance made of the right ones along `_MORE`
    evened out."""
    tables = {}
    for kind in TRUE.values():
        counts = _counts(kind)
        shares = counts[..., 1:] / counts[..., :1]
        rising = shares[..., :2]
        axes = [number for number, name in enumerate(GRID) if name in _MORE]
        tables[kind] = np.concatenate([_evened(rising, axes), shares[..., 2:]], axis=-1)
    return tables


def _evened(shares: np.ndarray, axes: list[int]) -> np.ndarray:
    """The nearest thing that never falls along `axes`: at each place half of the most of any with
    less, and half of the least of any with more."""
    most, least = shares, shares
    for axis in axes:
        most = np.maximum.accumulate(most, axis)
        least = np.flip(np.minimum.accumulate(np.flip(least, axis), axis), axis)
    return np.asarray((most + least) / 2)
