"""What sweeps like a plan find, from a table of simulated sweeps; nothing is simulated to read it.

`python -m isosweep.analysis.simulation.findable` makes the table, `findable.json`, in about 15
minutes on one core; `--sweeps 4` a coarse one in 4. Its sweeps have one budget, read at smaller
ones five times a decade, one B, n a doubling apart, and avg@8; they are those of the worlds
`plateau` and `slow_tail` (`presets`), stretched over the compute that is read and over the n from
the smallest up to the one at which growth ends. What larger n are run as well changes no world: the
table says what they show of the same one.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.analysis.bounds import Share
from isosweep.analysis.rungs import has_begun, rungs_of
from isosweep.config.analysis import AnalysisConfig
from isosweep.evidence import MIN_GENERATIONS
from isosweep.files import write_json
from isosweep.plan.cells import Plan

if TYPE_CHECKING:
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
    "below": (3, 6),
    "headroom": (1, 2, 3),
    "decades": (2, 3),
}
# Where the worlds' growth ends, as a share of the doublings that they are stretched over.
PLATEAU = 0.75
# Fields in which more is never less: what the table has otherwise is chance.
_MORE = ("runs_of_each_n", "problems", "headroom")
# Interpolated over their logarithm.
_LOGARITHMIC = ("runs_of_each_n", "problems")
# Of each share: the world, and the verdicts that count.
_COUNTED = {
    "ends": ("plateau", ("saturated",)),
    "grew": ("plateau", ("saturated", "probably saturated", "grew", "probably growing", "growing")),
    "goes_on": ("slow_tail", ("growing",)),
}
_SWEEPS = 16
_SMALLEST_N = 4

# Shares by place in `GRID`.
_Table = dict[tuple[int, ...], float]


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
class Findable:
    """Shares of simulated sweeps with a right verdict."""

    ends: Share
    """Of a world where growth of n* ends by two thirds of the compute that is read (`plateau`),
    those called saturated."""
    grew: Share
    """Of the same, those in which n* is seen to grow at all."""
    goes_on: Share
    """Of a world where growth never ends (`slow_tail`), those called growing."""

    @property
    def decided(self) -> float:
        """Share, over both worlds, in which the end of growth is decided, and rightly."""
        return (self.ends + self.goes_on) / 2


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
    tables, wanted = _tables(), asdict(design)
    places = [_place(name, wanted[name]) for name in GRID]
    shares = {name: _between(table, places) for name, table in tables.items()}
    return Findable(**shares)


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
    """Sweeps that each share of the table was counted in."""
    return int(_document()["sweeps"])


def _place(name: str, value: float) -> tuple[int, float]:
    """The value of `GRID` below, and the share of the way from there to the next."""
    known = GRID[name]
    value = min(max(value, known[0]), known[-1])
    low = max(place for place in range(len(known) - 1) if known[place] <= value)
    first, last = known[low], known[low + 1]
    if name in _LOGARITHMIC:
        first, last, value = math.log(first), math.log(last), math.log(value)
    return low, (value - first) / (last - first)


def _between(table: _Table, places: list[tuple[int, float]]) -> float:
    total = 0.0
    for corner in itertools.product((0, 1), repeat=len(places)):
        pairs = list(zip(corner, places, strict=True))
        weight = math.prod(way if up else 1 - way for up, (_, way) in pairs)
        total += weight * table[tuple(low + up for up, (low, _) in pairs)]
    return total


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


@cache
def _tables() -> dict[str, _Table]:
    """Every share by place, with what chance made of it along `_MORE` evened out."""
    document, tables = _document(), {}
    for name in _COUNTED:
        raw = {}
        for entry in document["entries"]:
            place = tuple(GRID[axis].index(entry["design"][axis]) for axis in GRID)
            raw[place] = entry[name] / document["sweeps"]
        tables[name] = _evened(raw)
    return tables


def _evened(table: _Table) -> _Table:
    """The nearest thing to the table that never falls along `_MORE`: at each place half of the most
    of any with less, and half of the least of any with more."""
    more = [number for number, name in enumerate(GRID) if name in _MORE]

    def comparable(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        pairs = list(enumerate(zip(one, other, strict=True)))
        return all(a <= b if number in more else a == b for number, (a, b) in pairs)

    return {
        place: (
            max(share for other, share in table.items() if comparable(other, place))
            + min(share for other, share in table.items() if comparable(place, other))
        )
        / 2
        for place in table
    }


def make_table(sweeps: int, report: Callable[[str], object]) -> dict[str, Any]:
    """What `findable.json` holds, from `sweeps` simulated sweeps an entry and world.

    `report` is told every entry. About half a second a sweep.
    """
    entries = []
    for values in itertools.product(*GRID.values()):
        design = dict(zip(GRID, values, strict=True))
        worlds = dict.fromkeys(world for world, _ in _COUNTED.values())
        verdicts = {world: _verdicts(design, world, sweeps) for world in worlds}
        counts = {
            name: sum(verdict in counting for verdict in verdicts[world])
            for name, (world, counting) in _COUNTED.items()
        }
        entries.append({"design": design, **counts})
        report(f"{design}: {counts}")
    return {
        "version": 2,
        "made_by": f"python -m isosweep.analysis.simulation.findable --sweeps {sweeps}",
        "sweeps": sweeps,
        "samples_per_problem": SAMPLES,
        "analysis": dict(JUDGED_BY),
        "entries": entries,
    }


def _verdicts(design: Mapping[str, float], world: str, sweeps: int) -> list[str]:
    """Verdicts of simulated sweeps of the design."""
    from isosweep.analysis.simulation.presets import planted_worlds
    from isosweep.analysis.simulation.sweep import read_plan, simulated_verdict
    from isosweep.plan.study import resolve

    config = _config(design)
    plan = resolve(config).plan
    budgets = read_plan(plan, config.analysis).budgets
    # As far above the smallest n as the presets have it: by three quarters of their doublings.
    largest = _SMALLEST_N * 2 ** (design["below"] / PLATEAU)
    known = planted_worlds(budgets[0], budgets[-1], _SMALLEST_N, largest)[world]
    return [
        simulated_verdict(
            known,
            plan,
            config.analysis,
            seed=(0, number),
            num_problems=int(design["problems"]),
            samples_per_problem=SAMPLES,
        )
        for number in range(sweeps)
    ]


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
    parser.add_argument("--sweeps", type=int, default=_SWEEPS, help="of every design and world")
    asked = parser.parse_args()
    write_json(TABLE, make_table(asked.sweeps, lambda line: sys.stderr.write(f"{line}\n")))
