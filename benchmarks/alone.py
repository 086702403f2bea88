"""What each change gives alone: of verdicts, designs and searches, on the same simulated sweeps.

    python benchmarks/alone.py --of designs --sweeps 20

Rows of one table meet sweeps of the same worlds and seeds. `--of` takes

- `verdicts`: which n is judged, ten runs;
- `designs`: ten runs with other n, seeds and held-out problems. Worlds are those of n 8..128, and
  the truth is that of n 4..256 at the last budget of ten runs;
- `odd_ten`, `odd_twenty`, `odd_36`: one seed, or one run, whose rewards are 12% too low;
- `broken`: ten runs of whose records one in 50 is half of what it was;
- `search`: the default search, and with one part of it changed.

Prints, over all worlds, the share of the whole grid's compute, the shares decided surely and with
`probably`, and the share false. `--write FILE` adds every outcome to a file, a line of JSON each.
A second a sweep and row on one core, 36 runs two, searches five.
"""

import importlib
import json
import math
import zlib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import ways
from coverage import CONFIG, DESIGNS, Design, doubling, make_plan, named
from frame import Goal, benchmark, by_world, table

from isosweep.analysis.simulation.power import OPEN
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import analysed_sweep, read_plan
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.statistics.judgement import judge
from isosweep.config.analysis import AnalysisConfig, Quantity
from isosweep.plan.cells import Plan
from isosweep.store.records import Record

GOALS = {
    "false": Goal("share of sweeps, by the first row, that claim what is not so", "at most", 0.05)
}
WORLDS = "plateau,constant,early,slow_tail,return,heavy_tails"
QUICK = {"sweeps": 1, "worlds": "plateau"}
_SAMPLES = 8
_TOO_LOW, _BROKEN, _ONE_IN = 0.88, 0.5, 50

Records = dict[str, tuple[Record, ...]]
Harm = Callable[[Plan, Records, np.random.Generator], Records]


def thinned(record: Record, kept: float, rng: np.random.Generator) -> Record:
    """The record with this share of its successes."""
    left = rng.binomial(np.array(record.successes), kept)
    return replace(record, successes=tuple(left.tolist()))


def odd_seed(plan: Plan, records: Records, rng: np.random.Generator) -> Records:
    """All runs of the first seed are too low, but for the evaluation before training."""
    odd = {run.run_id for run in plan.runs if run.seed == min(run.seed for run in plan.runs)}
    return _too_low(odd, records, rng)


def odd_run(plan: Plan, records: Records, rng: np.random.Generator) -> Records:
    """One run, at random, is."""
    return _too_low({plan.runs[int(rng.integers(len(plan.runs)))].run_id}, records, rng)


def _too_low(odd: set[str], records: Records, rng: np.random.Generator) -> Records:
    return {
        name: tuple(
            thinned(record, _TOO_LOW, rng) if name in odd and record.step else record
            for record in of_run
        )
        for name, of_run in records.items()
    }


def broken(plan: Plan, records: Records, rng: np.random.Generator) -> Records:
    """Single records of any run are half of what they were."""
    return {
        name: tuple(
            thinned(record, _BROKEN, rng) if rng.random() < 1 / _ONE_IN else record
            for record in of_run
        )
        for name, of_run in records.items()
    }


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to come to a verdict. `worlds`, `truth`: designs whose n and budgets the worlds are
    laid over, and whose truth counts, those of `design` if None; `changed`: values that module
    attributes have instead, by dotted name."""

    design: Design
    worlds: Design | None = None
    truth: Design | None = None
    quantity: Quantity = "enough"
    harm: Harm | None = None
    searched: bool = False
    changed: Mapping[str, Any] = field(default_factory=dict)

    def config(self, design: Design) -> AnalysisConfig:
        """How sweeps of a design are analysed."""
        return replace(CONFIG, decades=design.decades, quantity=self.quantity)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one sweep. `share`: of the compute of the whole grid, in `designs` of ten runs."""

    world: str
    number: int
    row: str
    verdict: str
    true: bool
    share: float

    @property
    def decided(self) -> bool:
        """Whether the verdict is so, and leaves nothing open."""
        return self.true and self.verdict not in OPEN

    @property
    def surely(self) -> bool:
        """Whether it says so without `probably`."""
        return self.decided and not self.verdict.startswith("probably ")

    @property
    def false(self) -> bool:
        """Whether it claims what is not so."""
        return not self.true and self.verdict != "not identified"


_TEN, _TWENTY, _36 = (DESIGNS[name] for name in ("ten", "twenty", "affordable"))
_WIDE = replace(_TEN, n=doubling(4, 256))


def _planned(design: Design) -> Row:
    return Row(design=design, worlds=_TEN, truth=_WIDE)


def _odd(design: Design) -> dict[str, Row]:
    level = {"isosweep.analysis.statistics.means._LEVELS": math.inf}
    return {
        "clean": Row(design=design),
        "one seed is off in all n": Row(design=design, harm=odd_seed),
        "the same, its level left in": Row(design=design, harm=odd_seed, changed=level),
        "one run is off": Row(design=design, harm=odd_run),
    }


def nothing(*_: object) -> list[Any]:
    """In place of what asks for runs."""
    return []


def _searched(**changed: Any) -> Row:
    return Row(
        design=_36, searched=True, changed={k.replace("__", "."): v for k, v in changed.items()}
    )


TABLES: dict[str, dict[str, Row]] = {
    "verdicts": {
        "n_d is judged": Row(design=_TEN),
        "n* is judged": Row(design=_TEN, quantity="best"),
    },
    "designs": {
        "n 4..64, the largest is n* of the plateau": _planned(replace(_TEN, n=doubling(4, 64))),
        "n 8..128, one doubling above it": _planned(_TEN),
        "n 4, 9, 23, 54, 128": _planned(replace(_TEN, n=(4, 9, 23, 54, 128))),
        "n 8, 16, 32, 64, 256": _planned(replace(_TEN, n=(8, 16, 32, 64, 256))),
        "n 4, 11, 32, 91, 256": _planned(replace(_TEN, n=(4, 11, 32, 91, 256))),
        "n 8..128, 512 problems": _planned(replace(_TEN, problems=512)),
        "n 8..128, 4 seeds to half the budget": _planned(replace(_TWENTY, budgets="5e19")),
        "n 4..64, 4 seeds (twice the compute)": _planned(replace(_TWENTY, n=doubling(4, 64))),
        "n 8..128, 4 seeds, 512 problems (twice)": _planned(replace(_TWENTY, problems=512)),
    },
    "odd_ten": _odd(_TEN),
    "odd_twenty": _odd(_TWENTY),
    "odd_36": _odd(_36),
    "broken": {
        "clean": Row(design=_TEN),
        "broken records are left out": Row(design=_TEN, harm=broken),
        "broken records count": Row(
            design=_TEN,
            harm=broken,
            changed={"isosweep.analysis.simulation.sweep.without_broken": tuple},
        ),
    },
    "search": {
        "the default": _searched(),
        "n* is judged": replace(
            _searched(ways__CONFIG=replace(CONFIG, quantity="best")), quantity="best"
        ),
        "the largest budget is not read first": _searched(
            isosweep__search__frontier___lacking=nothing
        ),
        "compute has one price": _searched(isosweep__search__frontier___SHARE=1e9),
    },
}


@contextmanager
def changed(values: Mapping[str, Any]) -> Iterator[None]:
    """These module attributes have these values meanwhile."""
    with ExitStack() as kept:
        for dotted, value in values.items():
            module, _, name = dotted.rpartition(".")
            kept.enter_context(mock.patch.object(importlib.import_module(module), name, value))
        yield


def outcomes_of(world: str, rows: dict[str, Row], number: int) -> list[Outcome]:
    """One sweep by every row of a table."""
    return [outcome_of(world, name, row, number) for name, row in rows.items()]


def outcome_of(world: str, name: str, row: Row, number: int) -> Outcome:
    """One sweep by one row."""
    plan, over = planned(row.design), row.worlds or row.design
    known = presets_of(read(over))[world]
    seed = [zlib.crc32(world.encode()), number]
    records = simulate_records(
        known, plan, seed, num_problems=row.design.problems, samples_per_problem=_SAMPLES
    )
    if row.harm:
        records = row.harm(plan, records, np.random.default_rng([*seed, 2]))
    reached = ways.whole(plan)
    with changed(row.changed):
        if row.searched:
            reached, _ = ways.searched(plan, records, number)
            data = ways.revealed(plan, records, reached)
        else:
            data = analysed_sweep(plan, records, row.config(row.design))
        verdict = judge(data, row.config(row.design))[2].verdict
    return Outcome(
        world=world,
        number=number,
        row=name,
        verdict=verdict,
        true=truth_of(world, over, row.truth or row.design, row.quantity).bears(verdict),
        share=sum(reached.values()) / sum(ways.whole(planned(over)).values()),
    )


@cache
def planned(design: Design) -> Plan:
    """The plan of a design."""
    return make_plan(design)


@cache
def read(design: Design) -> Plan:
    """The same with every budget at which it is read."""
    return read_plan(planned(design), replace(CONFIG, decades=design.decades))


@cache
def truth_of(world: str, over: Design, of: Design, quantity: Quantity) -> Truth:
    """What unlimited data of one design would say of a world laid over another."""
    known = presets_of(read(over))[world]
    return find_truth(known, read(of), replace(CONFIG, decades=of.decades, quantity=quantity))


OPTIONS = {
    "--of": {"choices": sorted(TABLES), "default": "designs"},
    "--sweeps": (40, "simulated sweeps of each world"),
    "--first": (3000, "number of the first sweep's seed"),
    "--worlds": WORLDS,
    "--processes": 1,
    "--rows": ("", "only rows whose name begins so"),
    "--write": {"metavar": "FILE", "type": Path, "help": "add every outcome there, as JSON"},
}


def shares(found: list[Outcome]) -> list[str]:
    """Compute, decided surely, with `probably`, false."""
    means = [
        np.mean([getattr(one, name) for one in found])
        for name in ("share", "surely", "decided", "false")
    ]
    return [f"{mean:.1%}" for mean in means]


def measure(options: Namespace) -> dict[str, float]:
    """Print the table, a world at a time and over all; the figure of the goal."""
    rows = {n: row for n, row in TABLES[options.of].items() if n.startswith(options.rows)}
    row = table("worlds", options.of, "compute", "decided surely", "with probably", "false")
    jobs = [(rows, options.first + number) for number in range(options.sweeps)]
    done: list[Outcome] = []
    for world, sweeps in by_world(outcomes_of, named(options.worlds), jobs, options.processes):
        mine = [outcome for sweep in sweeps for outcome in sweep]
        done += mine
        if options.write:
            with options.write.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in mine)
        for name in rows:
            row(world, name, *shares([one for one in mine if one.row == name]))
    for name in rows:
        row("all", name, *shares([one for one in done if one.row == name]))
    first = [one.false for one in done if one.row == next(iter(rows))]
    return {"false": float(np.mean(first))}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
