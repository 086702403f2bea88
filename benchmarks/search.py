"""What a search finds for its compute, against the full grid and other ways to save.

    python benchmarks/search.py --sweeps 12 --worlds plateau,slow_tail --ways search,grid

Simulated sweeps of the design `affordable` of benchmarks/coverage.py (36 runs: 9 n, 4 seeds, 9
budgets over 3 decades), all judged by the same analysis. All records of a sweep are simulated first
and revealed as a way asks for them:

- `grid`: every run to its last budget.
- `search`: `search=frontier`, 8 steps a decision.
- `optuna`: `search=optuna` at its defaults, TPE with Hyperband, for as much compute.

An n is chosen at every budget of the plan: the one that came out best there, or at the largest
budget that was read. `false`: verdicts that claim what is not so.
`--worlds` takes names and groups as benchmarks/coverage.py does; `--write FILE` writes the share of
the grid's compute that searches spend, as JSON. About 10 seconds a sweep on one core with the ways
`grid,search`.
"""

import json
import zlib
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coverage import CONFIG, DESIGNS, make_plan, named
from frame import Goal, UsageError, benchmark, by_world, table
from kinds import is_decided, is_false

from isosweep.analysis.curves import SweepData
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import read_plan, simulated_sweep
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.simulation.worlds import World
from isosweep.analysis.statistics.verdict import judge
from isosweep.config.study import SearchConfig
from isosweep.plan.cells import Plan
from isosweep.search import by_optuna, frontier
from isosweep.search.candidates import Question, standings
from isosweep.store.records import Record

GOALS = {
    "compute": Goal("median share of the grid's compute that a search spends", "at most", 0.5),
    "harmless": Goal(
        "share of sweeps whose n cost no more than the margin at any budget, of the grid's",
        "at least",
        0.95,
    ),
    "decided": Goal("share of sweeps rightly decided, of the grid's", "at least", 0.8),
    "false": Goal("share of searches whose verdict is false", "at most", 0.02),
}
WORLDS = "plateau,early,slow_tail,growing,constant,flat,collapses,easy,unstable,quiet,logarithm"
QUICK = {
    "sweeps": 1,
    "worlds": "plateau,slow_tail,constant,flat,collapses",
    "ways": "grid,search",
}
_DESIGN = "affordable"
_PROBLEMS, _SAMPLES = 4096, 8
# Runs at once: devices of a small cluster.
_DEVICES = 8

Reached = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one sweep by one way. `share`: of the grid's compute; `lost`: true reward lost at the
    worst budget; `true`: whether the verdict is."""

    share: float
    lost: float
    verdict: str
    true: bool


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One sweep that could be trained, and all that its runs would show."""

    world: World
    plan: Plan
    records: dict[str, tuple[Record, ...]]
    number: int


def whole(plan: Plan) -> Reached:
    """Every run to its last budget: the full grid."""
    return {run.run_id: run.milestones[-1] for run in plan.runs}


def revealed(known: Simulated, reached: Reached) -> SweepData:
    """The sweep as far as its runs have come, read as an analysis reads it."""
    kept = {}
    for run in known.plan.runs:
        to = reached.get(run.run_id, 0.0)
        # A milestone's record sits within half a step of it.
        kept[run.run_id] = tuple(
            record
            for record in known.records[run.run_id]
            if to and record.compute.spent(known.plan.budget_unit) <= to * 1.05
        )
    return simulated_sweep(known.plan, kept, CONFIG)


def searched(known: Simulated, config: SearchConfig) -> Reached:
    """How far a search trains every run."""
    decide = by_optuna.decide if config.name == "optuna" else frontier.decide
    reached: Reached = {}
    while True:
        data = revealed(known, reached)
        steps = decide(question(data, config, _DEVICES)).steps
        if not steps:
            return reached
        reached |= {step.run_id: step.milestone for step in steps}


def question(data: SweepData, config: SearchConfig, count: int) -> Question:
    """The next `count` steps of a sweep of which no run is at work."""
    return Question(
        plan=data.plan,
        data=data,
        at=standings(data.plan, data, {}),
        config=config,
        analysis=CONFIG,
        count=count,
        seed=config.seed,
    )


WAYS = ("grid", "search", "optuna")


def outcomes_of(name: str, number: int, ways: tuple[str, ...]) -> dict[str, Outcome]:
    """One simulated sweep, by every one of `ways`."""
    known = simulate(name, number)
    truth = find_truth(known.world, read_plan(known.plan, CONFIG), CONFIG)
    found, spent = {}, 0.0
    for way in ways:
        if way == "grid":
            reached = whole(known.plan)
        elif way == "search":
            reached = searched(known, SearchConfig(name="frontier", seed=number))
            spent = sum(reached.values())
        else:
            config = SearchConfig(name="optuna", max_compute=spent, seed=number)
            reached = searched(known, config)
        found[way] = judged(known, truth, reached)
    return found


def simulate(name: str, number: int) -> Simulated:
    """A sweep in a world."""
    plan = make_plan(DESIGNS[_DESIGN])
    world = presets_of(plan)[name]
    seed = [zlib.crc32(name.encode()), number]
    records = simulate_records(
        world, plan, seed, num_problems=_PROBLEMS, samples_per_problem=_SAMPLES
    )
    return Simulated(world=world, plan=plan, records=records, number=number)


def judged(known: Simulated, truth: Truth, reached: Reached) -> Outcome:
    """What the analysis says of runs trained so far, against the truth."""
    plan, world = known.plan, known.world
    _, frontier, saturation = judge(revealed(known, reached), CONFIG)
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


def share_of(outcomes: Outcomes, holds: Callable[[Outcome], bool]) -> float:
    """Share of the sweeps of which this holds."""
    return float(np.mean([holds(outcome) for outcome in outcomes]))


def within(outcomes: Outcomes) -> float:
    """Share whose n cost no more than the margin at any budget."""
    return share_of(outcomes, lambda o: o.lost <= CONFIG.margin)


def decided(outcomes: Outcomes) -> float:
    """Share with a true verdict that leaves nothing open."""
    return share_of(outcomes, lambda o: is_decided(o.verdict, o.true))


# The table of docs/search_how.md.
COLUMNS: dict[str, Callable[[Outcomes], str]] = {
    "compute: median": lambda found: f"{np.median([o.share for o in found]):.0%}",
    "worst tenth": lambda found: f"{np.quantile([o.share for o in found], 0.9):.0%}",
    "reward lost: mean": lambda found: f"{np.mean([o.lost for o in found]):.4f}",
    "within margin": lambda found: f"{within(found):.0%}",
    "decided": lambda found: f"{decided(found):.0%}",
    "false": lambda found: str(sum(is_false(o.verdict, o.true) for o in found)),
}


def figures(found: dict[str, dict[str, list[Outcome]]]) -> dict[str, float]:
    """What the goals ask, of the ways that were chosen."""
    ours, grid = (
        [outcome for ways in found.values() for outcome in ways.get(way, ())]
        for way in ("search", "grid")
    )
    known = {
        "compute": float(np.median([outcome.share for outcome in ours])),
        "false": share_of(ours, lambda o: is_false(o.verdict, o.true)),
    }
    if grid:
        known["harmless"] = within(ours) / max(within(grid), 1e-9)
        known["decided"] = decided(ours) / max(decided(grid), 1e-9)
    return known


def shares(found: dict[str, dict[str, list[Outcome]]], sweeps: int) -> dict[str, object]:
    """Shares of the grid's compute that searches spent, over all worlds: median, and the tenths at
    the ends."""
    every = [outcome.share for ways in found.values() for outcome in ways["search"]]
    quantiles = zip(("low", "median", "high"), (0.1, 0.5, 0.9), strict=True)
    share = {name: round(float(np.quantile(every, at)), 4) for name, at in quantiles}
    return {"design": _DESIGN, "sweeps": sweeps, "share": share}


OPTIONS = {
    "--sweeps": 12,
    "--first": (0, "number of the first sweep's seed"),
    "--worlds": WORLDS,
    "--ways": "grid,search",
    "--processes": 1,
    "--write": {"metavar": "FILE", "type": Path, "help": "write shares of compute there"},
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    asked, worlds = options.ways.split(","), named(options.worlds)
    ways = tuple(way for way in WAYS if way in asked)
    if len(ways) < len(asked) or "search" not in ways:
        raise UsageError(f"--ways {options.ways}: `search`, and any of {', '.join(WAYS)}")
    row = table("world", "way", *COLUMNS)
    found: dict[str, dict[str, list[Outcome]]] = {}
    jobs = [(options.first + number, ways) for number in range(options.sweeps)]
    for world, done in by_world(outcomes_of, worlds, jobs, options.processes):
        found[world] = {way: [outcomes[way] for outcomes in done] for way in ways}
        for way, outcomes in found[world].items():
            row(world, way, *(said(outcomes) for said in COLUMNS.values()))
    if options.write:
        text = json.dumps(shares(found, options.sweeps), indent=2)
        options.write.write_text(text + "\n", encoding="utf-8")
    return figures(found)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
