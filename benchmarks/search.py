"""What a search finds for its compute, against the full grid and other ways to save.

    python benchmarks/search.py --sweeps 12 --worlds plateau,slow_tail --ways search,grid

Simulated sweeps of the design `affordable` of benchmarks/coverage.py (36 runs: 9 n, 4 seeds, 9
budgets over 3 decades), by every way of benchmarks/ways.py, all judged by
the same analysis. An n is chosen at every budget of the plan: the one that came out best there, or
at the largest budget that was read. `as the grid`: how often the verdict is the full grid's, which
the row of the grid has of a second, independent grid. `--worlds` takes names and groups as
benchmarks/coverage.py does; `--write FILE` writes the share
of the grid's compute that searches spend, as JSON. About 10 seconds a sweep on one core with the
ways `grid,search,random`, 25 with all.
"""

import json
import zlib
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from coverage import CONFIG, DESIGNS, make_plan, named
from frame import Goal, UsageError, benchmark, by_world, number, table
from kinds import OPEN
from ways import SPENDING, Reached, Simulated, oracle, revealed, searched, whole

from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import read_plan
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.statistics import verdict

GOALS = {
    "compute": Goal("median share of the grid's compute that a search spends", "at most", 0.5),
    "harmless": Goal(
        "share of sweeps whose n cost no more than the margin at any budget, of the grid's",
        "at least",
        0.95,
    ),
    "decided": Goal("share of sweeps rightly decided, of the grid's", "at least", 0.8),
    "false": Goal("worst share `saturated` where it is not so", "at most", 0.1),
}
WAYS = ("grid", "search", *SPENDING, "oracle")
WORLDS = "plateau,early,slow_tail,growing,constant,flat,collapses,easy,unstable,quiet,logarithm"
QUICK = {
    "sweeps": 1,
    "worlds": "plateau,slow_tail,constant,flat,collapses",
    "ways": "grid,search,random,halving",
}
_DESIGN = "affordable"
_PROBLEMS, _SAMPLES = 4096, 8


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one sweep by one way. `share`: of the grid's compute; `lost`: true reward lost at the
    worst budget; `true`: whether the verdict is; `agrees`: whether it is the grid's, None where
    that was not asked; `stop`: why the search stopped."""

    share: float
    lost: float
    verdict: str
    true: bool
    agrees: bool | None = None
    stop: str | None = None


def outcomes_of(name: str, number: int, ways: tuple[str, ...]) -> dict[str, Outcome]:
    """One simulated sweep, by every one of `ways`."""
    known = simulate(name, number)
    stop, reached = None, {way: whole(known.plan) for way in ways if way == "grid"}
    if "search" in ways:
        reached["search"], stop = searched(known.plan, known.records, number)
        spent = sum(reached["search"].values())
        reached |= {way: SPENDING[way](known, spent) for way in ways if way in SPENDING}
    if "oracle" in ways:
        reached["oracle"] = oracle(known)
    truth = find_truth(known.world, read_plan(known.plan, CONFIG), CONFIG)
    outcomes = {way: judged(known, truth, to) for way, to in reached.items()}
    if "search" in outcomes:
        outcomes["search"] = replace(outcomes["search"], stop=stop)
    return with_agreement(name, number, outcomes)


def simulate(name: str, number: int, noise: int = 0) -> Simulated:
    """A sweep in a world; another `noise` is another sweep with the same `number`."""
    plan = make_plan(DESIGNS[_DESIGN])
    world = presets_of(plan)[name]
    seed = [zlib.crc32(name.encode()), number, *([2, noise] if noise else [])]
    records = simulate_records(
        world, plan, seed, num_problems=_PROBLEMS, samples_per_problem=_SAMPLES
    )
    return Simulated(world=world, plan=plan, records=records, number=number)


def with_agreement(name: str, number: int, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes, each compared with the grid's; the grid's with that of a second grid."""
    if "grid" not in outcomes:
        return outcomes
    again = simulate(name, number, noise=1)
    second = verdict.judge(revealed(again.plan, again.records, whole(again.plan)), CONFIG)[2]
    verdicts = dict.fromkeys(outcomes, outcomes["grid"].verdict) | {"grid": second.verdict}
    return {
        way: replace(outcome, agrees=outcome.verdict == verdicts[way])
        for way, outcome in outcomes.items()
    }


def judged(known: Simulated, truth: Truth, reached: Reached) -> Outcome:
    """What the analysis says of runs trained so far, against the truth."""
    plan, world = known.plan, known.world
    _, frontier, saturation = verdict.judge(revealed(plan, known.records, reached), CONFIG)
    offered = {(c.num_generations, c.problems_per_batch) for c in plan.cells}
    worst = 0.0
    for budget in plan.budgets:
        read = [at for at in frontier.budgets if at.budget <= budget]
        at = read[-1] if read else frontier.budgets[0]
        best = max(float(world.reward(np.array(budget), n, B)) for n, B in offered)
        cell = at.best.cell
        chosen = world.reward(np.array(budget), cell.num_generations, cell.problems_per_batch)
        worst = max(worst, best - float(chosen))
    return Outcome(
        share=sum(reached.values()) / sum(whole(plan).values()),
        lost=worst,
        verdict=saturation.verdict,
        true=truth.bears(saturation.verdict),
    )


Outcomes = list[Outcome]
# The table of docs/search_how.md.
COLUMNS: dict[str, Callable[[Outcomes], str]] = {
    "compute: median": lambda found: f"{np.median([o.share for o in found]):.0%}",
    "worst tenth": lambda found: f"{np.quantile([o.share for o in found], 0.9):.0%}",
    "reward lost: mean": lambda found: f"{np.mean([o.lost for o in found]):.4f}",
    "within margin": lambda found: f"{within(found):.0%}",
    "verdict true": lambda found: f"{np.mean([o.true for o in found]):.0%}",
    "decided": lambda found: f"{decided(found):.0%}",
    "false saturated": lambda found: f"{false(found):.0%}",
    "as the grid": lambda found: number(agreement(found), ".0%"),
    "verdicts": lambda found: counted([o.verdict for o in found]),
}


def counted(verdicts: list[str]) -> str:
    """How often each came."""
    return ", ".join(f"{name} {verdicts.count(name)}" for name in sorted(set(verdicts)))


def within(outcomes: list[Outcome]) -> float:
    """Share whose n cost no more than the margin at any budget."""
    return float(np.mean([outcome.lost <= CONFIG.margin for outcome in outcomes]))


def decided(outcomes: list[Outcome]) -> float:
    """Share with a true verdict that leaves nothing open."""
    return float(np.mean([o.true and o.verdict not in OPEN for o in outcomes]))


def false(outcomes: list[Outcome]) -> float:
    """Share called saturated where it is not so."""
    return float(np.mean([o.verdict == "saturated" and not o.true for o in outcomes]))


def agreement(outcomes: list[Outcome]) -> float | None:
    """Share whose verdict is the grid's."""
    known = [outcome.agrees for outcome in outcomes if outcome.agrees is not None]
    return float(np.mean(known)) if known else None


def figures(found: dict[str, dict[str, list[Outcome]]]) -> dict[str, float]:
    """What the goals ask, of the ways that were chosen."""
    by_way: dict[str, list[Outcome]] = {}
    for ways in found.values():
        for way, outcomes in ways.items():
            by_way.setdefault(way, []).extend(outcomes)
    if "search" not in by_way:
        return {}
    ours = by_way["search"]
    known = {
        "compute": float(np.median([outcome.share for outcome in ours])),
        "false": max(false(ways["search"]) for ways in found.values()),
    }
    if "grid" in by_way:
        grid = by_way["grid"]
        known["harmless"] = within(ours) / max(within(grid), 1e-9)
        known["decided"] = decided(ours) / max(decided(grid), 1e-9)
    return known


def shares(found: dict[str, dict[str, list[Outcome]]], sweeps: int) -> dict[str, object]:
    """Shares of the grid's compute that searches spent: over all worlds, and in each."""
    by_world = {
        world: [outcome.share for outcome in ways["search"]] for world, ways in found.items()
    }
    pooled_shares = [share for of_world in by_world.values() for share in of_world]
    return {
        "design": _DESIGN,
        "sweeps": sweeps,
        "share": spread(pooled_shares),
        "worlds": {world: spread(of_world) for world, of_world in by_world.items()},
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median, and the tenths at the ends."""
    quantiles = zip(("low", "median", "high"), (0.1, 0.5, 0.9), strict=True)
    return {name: round(float(np.quantile(values, at)), 4) for name, at in quantiles}


def chosen_ways(listed: str) -> tuple[str, ...]:
    """Ways by name, in the order of the table."""
    names = listed.split(",")
    unknown = [name for name in names if name not in WAYS]
    if unknown:
        raise UsageError(f"--ways {','.join(unknown)}: the ways are {', '.join(WAYS)}")
    if "search" not in names and (spending := [name for name in names if name in SPENDING]):
        raise UsageError(f"--ways {listed}: {', '.join(spending)} spend what `search` did: add it")
    return tuple(way for way in WAYS if way in names)


OPTIONS = {
    "--sweeps": 12,
    "--first": (0, "number of the first sweep's seed"),
    "--worlds": WORLDS,
    "--ways": ",".join(WAYS),
    "--processes": 1,
    "--stops": (False, "print why every search stopped"),
    "--write": {"metavar": "FILE", "type": Path, "help": "write shares of compute there"},
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    ways, worlds = chosen_ways(options.ways), named(options.worlds)
    if options.write and "search" not in ways:
        raise UsageError(f"--write {options.write} is of searches: add `search` to --ways")
    row = table("world", "way", *COLUMNS)
    found: dict[str, dict[str, list[Outcome]]] = {}
    jobs = [(options.first + number, ways) for number in range(options.sweeps)]
    for world, done in by_world(outcomes_of, worlds, jobs, options.processes):
        found[world] = {way: [outcomes[way] for outcomes in done] for way in ways}
        for way, outcomes in found[world].items():
            row(world, way, *(said(outcomes) for said in COLUMNS.values()))
        for outcome in found[world].get("search", ()) if options.stops else ():
            print(f"  {outcome.share:.2f}: {outcome.stop}", flush=True)
    if options.write:
        text = json.dumps(shares(found, options.sweeps), indent=2)
        options.write.write_text(text + "\n", encoding="utf-8")
    return figures(found)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
