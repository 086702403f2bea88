"""What a search finds for its compute, against the full grid and two simpler ways to save.

    python benchmarks/search.py --sweeps 12 --worlds plateau,slow_tail

Simulated sweeps of the design `affordable` of benchmarks/coverage.py (36 runs: 9 n, 4 seeds, 9
budgets over 3 decades). All records of a sweep are simulated first and revealed as a search asks
for them. `random`: runs at random to their last budget; `halving`: every run begun, and at every
budget the better half goes on (asynchronous successive halving, arXiv 1810.05934, rungs at the
budgets); both spend as much as the search did, and all four are judged by the same analysis. An n
is chosen at every budget of the plan: the one that came out best there, or at the largest budget
that was read. About 20 seconds a sweep on one core.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from coverage import CONFIG, DESIGNS, find_world, make_plan
from goals import Goal, judge, parse

from isosweep.analysis.curves import SweepData
from isosweep.analysis.simulation.known import KnownWorld
from isosweep.analysis.simulation.power import OPEN
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import analysed_sweep, read_plan
from isosweep.analysis.simulation.truth import find_truth
from isosweep.analysis.statistics import judgement
from isosweep.config.search import SearchConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.candidates import carried
from isosweep.search.frontier import decide
from isosweep.store.records import Record

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
QUICK = {"sweeps": 1, "worlds": "plateau,slow_tail,constant,flat,collapses"}
WORLDS = "plateau,early,slow_tail,growing,constant,flat,collapses,easy"
WAYS = ("grid", "search", "random", "halving")
# Runs at once: devices of a small cluster.
_DEVICES = 8
_PROBLEMS, _SAMPLES = 4096, 8

Records = dict[str, tuple[Record, ...]]
Reached = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one sweep by one way. `share`: of the grid's compute; `lost`: true reward lost at the
    worst budget; `true`: whether the verdict is; `stop`: why the search stopped."""

    share: float
    lost: float
    verdict: str
    true: bool
    stop: str | None = None


def measure(name: str, number: int) -> dict[str, Outcome]:
    """One simulated sweep, by every way."""
    plan = make_plan(DESIGNS["affordable"], policy=False)
    world = find_world(name, plan)
    seed = [zlib.crc32(name.encode()), number]
    records = simulate_records(
        world,
        plan,
        np.random.default_rng(seed),
        num_problems=_PROBLEMS,
        samples_per_problem=_SAMPLES,
    )
    found, stop = searched(plan, records, number)
    spent = sum(found.values())
    rng = np.random.default_rng([*seed, 1])
    ways = {
        "grid": {run.run_id: run.milestones[-1] for run in plan.runs},
        "search": found,
        "random": at_random(plan, spent, rng),
        "halving": halved(plan, records, spent),
    }
    outcomes = {way: judged(world, plan, records, reached) for way, reached in ways.items()}
    outcomes["search"] = replace(outcomes["search"], stop=stop)
    return outcomes


def revealed(plan: Plan, records: Records, reached: Reached) -> SweepData:
    """The sweep as far as its runs have come, read as an analysis reads it."""
    kept = {}
    for run in plan.runs:
        to = reached.get(run.run_id, 0.0)
        # A milestone's record sits within half a step of it.
        kept[run.run_id] = tuple(
            record
            for record in records[run.run_id]
            if to and record.compute.spent(plan.budget_unit) <= to * 1.05
        )
    data = analysed_sweep(plan, kept, CONFIG)
    return replace(data, readings=carried(data.readings))


def searched(plan: Plan, records: Records, seed: int) -> tuple[Reached, str]:
    """How far a search trains every run, and why it stops."""
    config = SearchConfig(name="frontier", kind="frontier")
    reached: Reached = {}
    while True:
        data = revealed(plan, records, reached)
        decision = decide(plan, data, {}, config, CONFIG, _DEVICES, seed)
        if not decision.steps:
            return reached, decision.stop or ""
        reached |= {step.run_id: step.milestone for step in decision.steps}


def at_random(plan: Plan, compute: float, rng: np.random.Generator) -> Reached:
    """Runs at random to their last budget, the last of them as far as the compute goes."""
    reached: Reached = {}
    for place in rng.permutation(len(plan.runs)):
        run = plan.runs[int(place)]
        fitting = [budget for budget in run.milestones if budget <= compute * (1 + 1e-9)]
        if fitting:
            reached[run.run_id] = fitting[-1]
            compute -= fitting[-1]
    return reached


def halved(plan: Plan, records: Records, compute: float) -> Reached:
    """The better half of the runs at every budget goes on to the next, until the compute is spent.

    Where no run is among the better half of those that came as far, the best that is left goes on.
    """
    at = dict.fromkeys((run.run_id for run in plan.runs), -1)
    left = compute
    while True:
        fitting = [
            (run, cost)
            for run in plan.runs
            if at[run.run_id] + 1 < len(run.milestones) and (cost := _next(run, at)) <= left
        ]
        if not fitting:
            break
        run, cost = max(fitting, key=lambda pair: _rank(plan, records, at, pair[0]))
        at[run.run_id] += 1
        left -= cost
    runs = {run.run_id: run for run in plan.runs}
    return {name: runs[name].milestones[place] for name, place in at.items() if place >= 0}


def _next(run: PlannedRun, at: dict[str, int]) -> float:
    place = at[run.run_id]
    return run.milestones[place + 1] - (run.milestones[place] if place >= 0 else 0.0)


def _rank(
    plan: Plan, records: Records, at: dict[str, int], run: PlannedRun
) -> tuple[bool, bool, int, float]:
    """What goes on first: what is not begun, the better half of a rung, the highest rung."""
    place = at[run.run_id]
    if place < 0:
        return True, False, 0, 0.0
    mine = _reward(plan, records, run, place)
    peers = [
        _reward(plan, records, other, place) for other in plan.runs if at[other.run_id] >= place
    ]
    better = sum(other > mine for other in peers) < len(peers) / 2
    return False, better, place, mine


def _reward(plan: Plan, records: Records, run: PlannedRun, place: int) -> float:
    budget = run.milestones[place]
    record = min(records[run.run_id], key=lambda r: abs(r.compute.spent(plan.budget_unit) - budget))
    return sum(record.successes) / len(record.successes) / record.samples_per_problem


def judged(world: KnownWorld, plan: Plan, records: Records, reached: Reached) -> Outcome:
    """What the analysis says of runs trained so far, against the truth."""
    data = revealed(plan, records, reached)
    _, frontier, saturation = judgement.judge(data, CONFIG)
    worst = 0.0
    for budget in plan.budgets:
        read = [at for at in frontier.budgets if at.budget <= budget]
        at = read[-1] if read else frontier.budgets[0]
        offered = {(c.num_generations, c.problems_per_batch) for c in plan.cells}
        best = max(float(world.reward(np.array(budget), n, B)) for n, B in offered)
        cell = at.best.cell
        chosen = world.reward(np.array(budget), cell.num_generations, cell.problems_per_batch)
        worst = max(worst, best - float(chosen))
    whole = sum(run.milestones[-1] for run in plan.runs)
    truth = find_truth(world, read_plan(plan, CONFIG), CONFIG.margin, CONFIG.growth_bound)
    return Outcome(
        share=sum(reached.values()) / whole,
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


def figures(found: dict[str, dict[str, list[Outcome]]]) -> dict[str, float]:
    """What the goals ask."""
    pooled = {way: [o for ways in found.values() for o in ways[way]] for way in WAYS}
    ours, grid = pooled["search"], pooled["grid"]
    return {
        "compute": float(np.median([outcome.share for outcome in ours])),
        "harmless": within(ours) / max(within(grid), 1e-9),
        "decided": decided(ours) / max(decided(grid), 1e-9),
        "false": max(false(ways["search"]) for ways in found.values()),
    }


def main() -> None:
    """Print the table, and judge it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweeps", type=int, default=12)
    parser.add_argument("--worlds", default=WORLDS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stops", action="store_true", help="print why every search stopped")
    chosen = parse(parser, GOALS, QUICK)
    print(f"| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|", flush=True)
    found: dict[str, dict[str, list[Outcome]]] = {}
    with ProcessPoolExecutor(chosen.processes) as pool:
        jobs = {
            world: [pool.submit(measure, world, number) for number in range(chosen.sweeps)]
            for world in chosen.worlds.split(",")
        }
        for world, sweeps in jobs.items():
            done = [sweep.result() for sweep in sweeps]
            found[world] = {way: [outcomes[way] for outcomes in done] for way in WAYS}
            for way in WAYS:
                print(row(world, way, found[world][way]), flush=True)
            if chosen.stops:
                for outcome in found[world]["search"]:
                    print(f"  {outcome.share:.2f}: {outcome.stop}", flush=True)
    judge(GOALS, figures(found), chosen)


if __name__ == "__main__":
    main()
