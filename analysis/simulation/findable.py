"""What sweeps like a plan find, from a table of simulated sweeps; nothing is simulated to read it.

`python -m isosweep.analysis.simulation.findable --processes 2` makes the table, `findable.json`, in
about 25 minutes. Its sweeps have one budget, read at smaller ones five times a decade, one B, n a
doubling apart, and avg@8. Their worlds are six `presets`, stretched over the compute that is read
and over the n from the smallest up to the one at which growth ends: three in which it ends by two
thirds of the compute, and three in which it goes on. A world counts by what is true of it for the
design (`truth`), and not at all where that is within chance of the bounds by which verdicts differ.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isosweep.analysis.bounds import Share
from isosweep.analysis.rungs import has_begun, rungs_of
from isosweep.config.analysis import AnalysisConfig
from isosweep.evidence import MIN_GENERATIONS
from isosweep.files import write_json
from isosweep.plan.cells import Plan

if TYPE_CHECKING:
    from isosweep.analysis.simulation.worlds import World
    from isosweep.config.sweep import SweepConfig

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
WORLDS = ("plateau", "early", "easy", "slow_tail", "logarithm", "straight")
# Where the presets' growth ends, as a share of the doublings that they are stretched over.
PLATEAU = 0.75
# Fields in which more is never less: what the table has otherwise is chance.
_MORE = ("runs_of_each_n", "problems", "headroom")
# Interpolated over their logarithm.
_LOGARITHMIC = ("runs_of_each_n", "problems")
_SMALLEST_N = 4
# What is true of a world, and by which field of `Findable` it counts.
_TRUE = {"saturated": "ends", "growing": "goes_on"}
# Of a kind of world: sweeps, and of these those with a right verdict surely, with a right one, and
# with a false one.
_COUNTS = ("sweeps", "surely", "probably", "falsely")


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

    @property
    def decided(self) -> float:
        """Share, over both, that is surely and rightly decided."""
        return (self.ends.surely + self.goes_on.surely) / 2


def read_budgets(plan: Plan, config: AnalysisConfig) -> tuple[float, ...]:
    """Budgets, ascending, at which an analysis by `config` reads three n or more of finished runs.

    Those of the plan, and its ladder of smaller ones (`analysis.rungs`).
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
        kinds[kind] = Odds(**dict(zip(_COUNTS[1:], shares.tolist(), strict=True)))
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
    return int(np.mean([_counts(kind)[..., 0] for kind in _TRUE.values()]).round())


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
    """`_COUNTS` by place in `GRID`, (*its shape, 4)."""
    shape = [len(values) for values in GRID.values()]
    return np.array(_document()["counts"][kind], float).reshape(*shape, len(_COUNTS))


@cache
def _tables() -> dict[str, np.ndarray]:
    """Shares of each kind by place in `GRID`, with what chance made of the right ones along `_MORE`
    evened out."""
    tables = {}
    for kind in _TRUE.values():
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


def make_table(sweeps: int, processes: int) -> dict[str, Any]:
    """What `findable.json` holds, from `sweeps` simulated sweeps of each design in each world.

    About half a second a sweep; standard error has a line of each design.
    """
    designs = [dict(zip(GRID, v, strict=True)) for v in itertools.product(*GRID.values())]
    counts: dict[str, list[int]] = {kind: [] for kind in _TRUE.values()}
    with ProcessPoolExecutor(processes) as pool:
        for design, found in zip(
            designs, pool.map(partial(_counted, sweeps=sweeps), designs), strict=True
        ):
            sys.stderr.write(f"{design}: {found}\n")
            for kind, all_of_it in counts.items():
                all_of_it += found[kind]
    return {
        "version": 3,
        "made_by": f"python -m isosweep.analysis.simulation.findable --sweeps {sweeps}",
        "worlds": WORLDS,
        "samples_per_problem": SAMPLES,
        "analysis": dict(JUDGED_BY),
        "designs": {name: list(values) for name, values in GRID.items()},
        "counts": counts,
    }


def _counted(design: Mapping[str, float], sweeps: int) -> dict[str, list[int]]:
    """`_COUNTS` of each kind of world."""
    from isosweep.analysis.simulation.power import OPEN
    from isosweep.analysis.simulation.sweep import read_plan, simulated_verdict
    from isosweep.analysis.simulation.truth import find_truth
    from isosweep.plan.study import resolve

    config = _config(design)
    plan = resolve(config).plan
    read = read_plan(plan, config.analysis)
    counts = {kind: np.zeros(len(_COUNTS), int) for kind in _TRUE.values()}
    for world in _stretched(read.budgets, design["below"]):
        truth = find_truth(world, read, config.analysis)
        if truth.verdict not in _TRUE or not truth.is_clear(config.analysis.growth_bound):
            continue
        for number in range(sweeps):
            verdict = simulated_verdict(
                world,
                plan,
                config.analysis,
                seed=(0, number),
                num_problems=int(design["problems"]),
                samples_per_problem=SAMPLES,
            )
            so = truth.bears(verdict)
            decided = so and verdict not in OPEN
            surely = decided and not verdict.startswith("probably ")
            false = not so and verdict != "not identified"
            counts[_TRUE[truth.verdict]] += (1, surely, decided, false)
    return {kind: counted.tolist() for kind, counted in counts.items()}


def _stretched(budgets: tuple[float, ...], below: float) -> "Iterator[World]":
    """`WORLDS`, growth of n* ending so many doublings above the smallest n."""
    from isosweep.analysis.simulation.presets import delayed_worlds, planted_worlds

    first, last, middle = budgets[0], budgets[-1], math.sqrt(budgets[0] * budgets[-1])
    known = {
        **planted_worlds(first, last, _SMALLEST_N, _SMALLEST_N * 2 ** (below / PLATEAU)),
        # These end two doublings below the largest n.
        **delayed_worlds(middle, _SMALLEST_N, _SMALLEST_N * 2 ** (below + 2)),
    }
    return (known[name] for name in WORLDS)


def _config(design: Mapping[str, float]) -> "SweepConfig":
    """Settings of a sweep of that design."""
    doublings = int(design["below"] + design["headroom"])
    generations = [_SMALLEST_N * 2**k for k in range(doublings + 1)]
    return wide_config(
        "grid=fix_B",
        "budget=1e21",
        f"grid.num_generations={generations}",
        f"grid.seeds={list(range(int(design['runs_of_each_n'])))}",
        f"analysis.decades={design['decades']}",
        *(f"analysis.{name}={value}" for name, value in JUDGED_BY.items()),
    )


def wide_config(*overrides: str) -> "SweepConfig":
    """Settings of a sweep to simulate, whatever it would cost."""
    from hydra import compose, initialize_config_dir

    from isosweep.config.hydra import config_directory, from_hydra

    wide = (
        *("model=qwen-0.5b", "grid.tolerance=0.05", "grid.max_epochs=1e6", "grid.max_steps=1e9"),
        "grid.max_completions_per_step=65536",
    )
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return from_hydra(compose("config", overrides=[*wide, *overrides]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=8, help="of every design and world")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    write_json(TABLE, make_table(asked.sweeps, asked.processes))
