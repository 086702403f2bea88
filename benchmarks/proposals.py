"""What proposals of `mode=next` are worth: undecided sweeps, and what decides them.

    python benchmarks/proposals.py --sweeps 40 --worlds plateau,slow_tail

Simulated sweeps of the design `affordable` of benchmarks/coverage.py, trained whole. To those that
the analysis leaves undecided, each of these adds at most `--share` of their compute:

- `next`: what `mode=next` proposes, as its command trains it: a search over the grid and what is
  proposed beside it, within the compute of the proposal.
- `nearest`: further seeds to their last budget, the next seed of every n before the one after,
  those nearest to the best n first: as much compute as `next` spent.
- `random`: of the runs that `next` may take, some at random to their last budget, as much.
- `seeds`: as `nearest`, with all of `--share`.

All are judged by the same analysis. About 20 seconds of a core for an undecided sweep.
"""

import zlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from coverage import CONFIG, named, resolve_plan
from frame import Goal, benchmark, by_world, table
from search import counted
from ways import Reached, at_random, revealed, searched, whole

from isosweep.analysis.simulation.power import OPEN
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import read_plan
from isosweep.analysis.simulation.truth import find_truth
from isosweep.analysis.statistics import judgement
from isosweep.plan.cells import Plan
from isosweep.search.proposing import best_n, first_n, propose, widened

GOALS = {
    "decided": Goal("share rightly decided by `next`, of that by `nearest`", "at least", 1.0),
    "false": Goal("share falsely decided by `next`", "at most", 0.1),
}
WAYS = ("next", "nearest", "random", "seeds")
WORLDS = "plateau,slow_tail"
QUICK = {"sweeps": 2}
_PROBLEMS, _SAMPLES = 4096, 8
_N = tuple(8 * 2**k for k in range(9))
_BUDGETS = tuple(10 ** (18 + 3 * k / 8) for k in range(9))
# As `isosweep.modes.proposal` widens a sweep: n between and beyond, further seeds.
_BETWEEN = tuple(2 * round(n * 2**0.5 / 2) for n in _N[:-1])
_WIDE_N = tuple(sorted((*_N, *_BETWEEN, 2 * _N[-1])))
_SEEDS, _WIDE_SEEDS = tuple(range(4)), tuple(range(6))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of an undecided sweep by one way. `share`: what it added, of the sweep's compute."""

    share: float
    verdict: str
    true: bool

    @property
    def decided(self) -> bool:
        """Whether the verdict leaves nothing open."""
        return self.verdict not in OPEN


def outcomes_of(name: str, number: int, share: float) -> dict[str, Outcome] | None:
    """One sweep by every way; None where it is decided."""
    everything = _everything()
    own = part(everything, _N, _SEEDS)
    world, seed = presets_of(own)[name], zlib.crc32(name.encode())
    rng = np.random.default_rng([seed, number])
    records = simulate_records(
        world, everything, rng, num_problems=_PROBLEMS, samples_per_problem=_SAMPLES
    )
    before = whole(own)
    read = revealed(own, records, before)
    if judgement.judge(read, CONFIG)[2].verdict not in OPEN:
        return None
    spent = sum(before.values())
    first = first_n(read, CONFIG)
    wide = part(everything, (*_N, *widened(own, read), first), _WIDE_SEEDS)
    steps = propose(read, revealed(wide, records, before), CONFIG, share * spent, number).steps
    beside = part(
        everything,
        (*_N, *(step.run.num_generations for step in steps)),
        (*_SEEDS, *(step.run.seed for step in steps)),
    )
    most = spent + sum(step.compute for step in steps)
    gone, _ = searched(beside, records, number, before, most) if steps else (before, "")
    further = replace(beside, runs=tuple(r for r in beside.runs if r.run_id not in before))
    added, best = sum(gone.values()) - spent, best_n(read) or _N[0]
    reached = {
        "next": (beside, gone),
        "nearest": seeded(everything, before, best, added),
        "random": (beside, before | at_random(further, added, rng)),
        "seeds": seeded(everything, before, best, share * spent),
    }
    outcomes = {}
    for way, (plan, to) in reached.items():
        truth = find_truth(world, read_plan(plan, CONFIG), CONFIG)
        verdict = judgement.judge(revealed(plan, records, to), CONFIG)[2].verdict
        more = (sum(to.values()) - spent) / spent
        outcomes[way] = Outcome(share=more, verdict=verdict, true=truth.bears(verdict))
    return outcomes


def _everything() -> Plan:
    """All that any proposal may hold."""
    grid = [f"grid.num_generations={list(_WIDE_N)}", f"grid.seeds={list(_WIDE_SEEDS)}"]
    return resolve_plan([f"budget={list(_BUDGETS)}", "grid=fix_B", *grid])


def part(plan: Plan, generations: Sequence[int | None], seeds: Sequence[int]) -> Plan:
    """Of the plan what has these n and seeds."""
    runs = tuple(r for r in plan.runs if r.num_generations in generations and r.seed in seeds)
    kept = {run.run_id for run in runs}
    return replace(plan, cells=tuple(c for c in plan.cells if c.run_id in kept), runs=runs)


def seeded(plan: Plan, before: Reached, best: int, compute: float) -> tuple[Plan, Reached]:
    """The grid with further seeds, the n nearest to the best one first."""
    further = part(plan, _N, _WIDE_SEEDS)
    reached, left = dict(before), compute
    runs = [run for run in further.runs if run.run_id not in before]
    for run in sorted(runs, key=lambda r: (r.seed, abs(np.log(r.num_generations / best)))):
        if (cost := run.milestones[-1]) <= left * (1 + 1e-9):
            reached[run.run_id], left = cost, left - cost
    return further, reached


def _share(outcomes: Sequence[Outcome], *, true: bool) -> float:
    """Share that are decided, truly or falsely."""
    return float(np.mean([each.decided and each.true is true for each in outcomes]))


def figures(found: dict[str, list[Outcome]]) -> dict[str, float]:
    """What the goals ask, where any sweep was left undecided."""
    if not found["next"]:
        return {}
    by_seeds = _share(found["nearest"], true=True)
    ours = _share(found["next"], true=True)
    known = {"false": _share(found["next"], true=False)}
    return known | ({"decided": ours / by_seeds} if by_seeds else {})


# The table of docs/recommend.md.
COLUMNS: dict[str, Callable[[Sequence[Outcome]], str]] = {
    "undecided": lambda found: str(len(found)),
    "adds": lambda found: f"{np.mean([outcome.share for outcome in found]):.0%}",
    "decided truly": lambda found: f"{_share(found, true=True):.0%}",
    "falsely": lambda found: f"{_share(found, true=False):.0%}",
    "verdicts": lambda found: counted([outcome.verdict for outcome in found]),
}
OPTIONS = {
    "--sweeps": (40, "of which the undecided count"),
    "--first": (0, "number of the first sweep's seed"),
    "--worlds": WORLDS,
    "--share": 1 / 3,
    "--processes": 1,
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    worlds = named(options.worlds)
    row = table("world", "way", *COLUMNS)
    found: dict[str, list[Outcome]] = {way: [] for way in WAYS}
    jobs = [(options.first + number, options.share) for number in range(options.sweeps)]
    for world, sweeps in by_world(outcomes_of, worlds, jobs, options.processes):
        done = [outcomes for outcomes in sweeps if outcomes is not None]
        for way in WAYS if done else ():
            mine = [outcomes[way] for outcomes in done]
            found[way] += mine
            row(world, way, *(said(mine) for said in COLUMNS.values()))
    return figures(found)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
