"""What a search finds for its compute, against the full grid and other ways to save.

    python benchmarks/search.py --sweeps 12 --worlds plateau,slow_tail --ways search,grid

Simulated sweeps of the design `affordable` of benchmarks/coverage.py (36 runs: 9 n, 4 seeds, 9
budgets over 3 decades; policy worlds: 35 of 7 n), by every way of benchmarks/ways.py, all judged by
the same analysis. An n is chosen at every budget of the plan: the one that came out best there, or
at the largest budget that was read. `as the grid`: how often the verdict is the full grid's, which
the row of the grid has of a second, independent grid. `--worlds` takes names and groups as
benchmarks/coverage.py does (a policy world takes minutes to begin); `--write FILE` writes the share
of the grid's compute that searches spend, as JSON. About 10 seconds a sweep on one core with the
ways `grid,search,random`, 25 with all.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from coverage import CONFIG, DESIGNS, find_world, make_plan, named
from goals import Goal, judge, parse
from ways import SPENDING, Reached, Simulated, oracle, revealed, searched, whole

from isosweep.analysis.simulation.policy_worlds import GENERATIONS, SETTINGS, pooled
from isosweep.analysis.simulation.power import OPEN
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import read_plan
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.statistics import judgement

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


def measure(name: str, number: int, ways: tuple[str, ...]) -> dict[str, Outcome]:
    """One simulated sweep, by every one of `ways`."""
    known = simulate(name, number)
    stop, reached = None, {way: whole(known.plan) for way in ways if way == "grid"}
    if "search" in ways:
        reached["search"], stop = searched(known.plan, known.records, number)
        spent = sum(reached["search"].values())
        reached |= {way: SPENDING[way](known, spent) for way in ways if way in SPENDING}
    if "oracle" in ways:
        reached["oracle"] = oracle(known)
    truth = find_truth(
        known.world, read_plan(known.plan, CONFIG), CONFIG.margin, CONFIG.growth_bound
    )
    outcomes = {way: judged(known, truth, to) for way, to in reached.items()}
    if "search" in outcomes:
        outcomes["search"] = replace(outcomes["search"], stop=stop)
    return with_agreement(name, number, outcomes)


def simulate(name: str, number: int, noise: int = 0) -> Simulated:
    """A sweep in a world; another `noise` is another sweep with the same `number`."""
    plan = make_plan(DESIGNS[_DESIGN], policy=name in SETTINGS)
    world = find_world(name, plan)
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
    second = judgement.judge(revealed(again.plan, again.records, whole(again.plan)), CONFIG)[2]
    verdicts = dict.fromkeys(outcomes, outcomes["grid"].verdict) | {"grid": second.verdict}
    return {
        way: replace(outcome, agrees=outcome.verdict == verdicts[way])
        for way, outcome in outcomes.items()
    }


def judged(known: Simulated, truth: Truth, reached: Reached) -> Outcome:
    """What the analysis says of runs trained so far, against the truth."""
    plan, world = known.plan, known.world
    _, frontier, saturation = judgement.judge(revealed(plan, known.records, reached), CONFIG)
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


HEADER = (
    "world",
    "way",
    "compute: median",
    "worst tenth",
    "reward lost: mean",
    "within margin",
    "verdict true",
    "decided",
    "false saturated",
    "as the grid",
    "verdicts",
)


def row(world: str, way: str, outcomes: list[Outcome]) -> str:
    """One line of the table in docs/search.md."""
    shares = [outcome.share for outcome in outcomes]
    verdicts = [outcome.verdict for outcome in outcomes]
    listed = ", ".join(f"{name} {verdicts.count(name)}" for name in sorted(set(verdicts)))
    cells = (
        world,
        way,
        f"{np.median(shares):.0%}",
        f"{np.quantile(shares, 0.9):.0%}",
        f"{np.mean([outcome.lost for outcome in outcomes]):.4f}",
        f"{within(outcomes):.0%}",
        f"{np.mean([outcome.true for outcome in outcomes]):.0%}",
        f"{decided(outcomes):.0%}",
        f"{false(outcomes):.0%}",
        agreement(outcomes),
        listed,
    )
    return f"| {' | '.join(cells)} |"


def within(outcomes: list[Outcome]) -> float:
    """Share whose n cost no more than the margin at any budget."""
    return float(np.mean([outcome.lost <= CONFIG.margin for outcome in outcomes]))


def decided(outcomes: list[Outcome]) -> float:
    """Share with a true verdict that leaves nothing open."""
    return float(np.mean([o.true and o.verdict not in OPEN for o in outcomes]))


def false(outcomes: list[Outcome]) -> float:
    """Share called saturated where it is not so."""
    return float(np.mean([o.verdict == "saturated" and not o.true for o in outcomes]))


def agreement(outcomes: list[Outcome]) -> str:
    """Share whose verdict is the grid's."""
    known = [outcome.agrees for outcome in outcomes if outcome.agrees is not None]
    return f"{np.mean(known):.0%}" if known else "–"


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


def chosen_ways(parser: argparse.ArgumentParser, listed: str) -> tuple[str, ...]:
    """Ways by name, in the order of the table."""
    names = listed.split(",")
    unknown = [name for name in names if name not in WAYS]
    if unknown:
        parser.error(f"--ways {','.join(unknown)}: the ways are {', '.join(WAYS)}")
    if "search" not in names and (spending := [name for name in names if name in SPENDING]):
        parser.error(f"--ways {listed}: {', '.join(spending)} spend what `search` did: add it")
    return tuple(way for way in WAYS if way in names)


def main() -> None:
    """Print the table, and judge it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweeps", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="number of the first sweep's seed")
    parser.add_argument("--worlds", default=WORLDS)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stops", action="store_true", help="print why every search stopped")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write shares of compute there")
    chosen = parse(parser, GOALS, QUICK)
    ways, worlds = chosen_ways(parser, chosen.ways), named(parser, chosen.worlds)
    if chosen.write and "search" not in ways:
        parser.error(f"--write {chosen.write} is of searches: add `search` to --ways")
    for world in set(worlds) & set(SETTINGS):
        for n in GENERATIONS:
            # Before the processes begin, which then have it: a minute a world.
            pooled(SETTINGS[world], n)
    numbers = range(chosen.first, chosen.first + chosen.sweeps)
    print(f"| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|", flush=True)
    found: dict[str, dict[str, list[Outcome]]] = {}
    with ProcessPoolExecutor(chosen.processes) as pool:
        jobs = {
            world: [pool.submit(measure, world, number, ways) for number in numbers]
            for world in worlds
        }
        for world, sweeps in jobs.items():
            done = [sweep.result() for sweep in sweeps]
            found[world] = {way: [outcomes[way] for outcomes in done] for way in ways}
            for way in ways:
                print(row(world, way, found[world][way]), flush=True)
            if chosen.stops and "search" in ways:
                for outcome in found[world]["search"]:
                    print(f"  {outcome.share:.2f}: {outcome.stop}", flush=True)
    if chosen.write:
        text = json.dumps(shares(found, chosen.sweeps), indent=2)
        chosen.write.write_text(text + "\n", encoding="utf-8")
    judge(GOALS, figures(found), chosen)


if __name__ == "__main__":
    main()
