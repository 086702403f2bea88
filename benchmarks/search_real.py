"""A search on real runs, against the full grid: `python benchmarks/search_real.py`.

Each repetition has seeds of its own. With them the built-in model is trained twice over by the
command line, each time from nothing in a directory of its own: the full grid, then what
search=frontier chooses of it. The same run has the same numbers in both, so `its grid` shares the
luck of its seeds; the grids of other repetitions do not, and how far those agree with each other is
all that a search can be asked for.

Reward lost: by the n chosen (the analysis's best, at the last budget read where this one was not),
at the worst budget, against the best n there, by the grids' measured means of all repetitions
together; in brackets the standard error of that difference between two n, paired by seed. The
repetition's own seeds are a part of those means, and the best of noisy means is too good.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import math
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean, median, stdev

from frame import Goal, UsageError, benchmark, table

from isosweep.analysis.load import load_view
from isosweep.analysis.statistics import judgement
from isosweep.config.analysis import AnalysisConfig
from isosweep.store.paths import SweepPaths

GOALS = {
    "compute": Goal("median share of the grid's compute that a search spends", "at most", 0.5),
    "lost": Goal("reward lost by a search's n at its worst budget, the most", "at most", 0.02),
    "agree": Goal(
        "share of a search's n within one place of another grid's, of that between grids",
        "at least",
        0.9,
    ),
}
QUICK = {"repetitions": 2, "num_generations": [4, 8, 16], "seeds": 2, "budgets": [1e10, 2e10]}
CONFIG = AnalysisConfig(name="default")
WAYS = {"grid": "search=grid", "search": "search=frontier"}

# Held-out reward of each (budget, n, seed) that was read; of a run that had fallen, as it fell.
Rewards = dict[tuple[float, int, int], float]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one sweep. `compute`: of all its runs, FLOPs; `chosen`: n, one for each budget."""

    compute: float
    chosen: tuple[int, ...]
    verdict: str
    rewards: Rewards


def train(way: str, repetition: int, options: Namespace, place: Path) -> Outcome:
    """One sweep, from nothing where `place` is empty, and what its analysis says."""
    first = options.first + repetition * options.seeds
    seeds = range(first, first + options.seeds)
    command = [
        *(sys.executable, "-m", "isosweep", WAYS[way], "tracking=none", "analysis.formats=[]"),
        f"budget=[{','.join(f'{budget:g}' for budget in options.budgets)}]",
        f"grid.num_generations=[{','.join(map(str, options.num_generations))}]",
        f"grid.seeds=[{','.join(map(str, seeds))}]",
        f"sweeps_dir={place}",
    ]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} left with {done.returncode}:\n{done.stdout}{done.stderr}")
    (plan,) = place.glob("tiny-*/plan.json")
    return read(SweepPaths(plan.parent, place / "runs"), options.budgets)


def read(paths: SweepPaths, budgets: Sequence[float]) -> Outcome:
    """A sweep's compute, the n that its analysis chooses at every budget, and its verdict."""
    data = load_view(paths, CONFIG)
    _, frontier, saturation = judgement.judge(data, CONFIG)
    chosen = []
    for budget in budgets:
        known = [at for at in frontier.budgets if at.budget <= budget * 1.001]
        chosen.append((known or frontier.budgets)[-1].best.num_generations)
    rewards: Rewards = {}
    for reading in data.readings:
        cell, value = reading.cell, reading.fallen if reading.reward is None else reading.reward
        if value is not None:
            rewards[cell.budget, cell.num_generations, cell.seed] = value
    return Outcome(
        compute=math.fsum(float(curve.compute[-1]) for curve in data.curves if curve.compute.size),
        chosen=tuple(chosen),
        verdict=saturation.verdict,
        rewards=rewards,
    )


def lost(chosen: Sequence[int], rewards: Rewards, budgets: Sequence[float]) -> tuple[float, float]:
    """Reward lost by the n `chosen` at the worst budget, and its standard error; 0: none."""
    worst = (0.0, 0.0)
    for budget, n in zip(budgets, chosen, strict=True):
        by_n: dict[int, dict[int, float]] = {}
        for (at, other, seed), reward in rewards.items():
            if at == budget:
                by_n.setdefault(other, {})[seed] = reward
        best = max(by_n, key=lambda other: fmean(by_n[other].values()))
        paired = [by_n[best][seed] - by_n[n][seed] for seed in by_n[best].keys() & by_n[n].keys()]
        if fmean(paired) > worst[0]:
            worst = fmean(paired), stdev(paired) / math.sqrt(len(paired))
    return worst


def near(a: Outcome, b: Outcome, offered: Sequence[int], places: int) -> float:
    """Share of budgets at which two sweeps' n lie within so many places of the grid's values."""
    pairs = zip(a.chosen, b.chosen, strict=True)
    return fmean(abs(offered.index(n) - offered.index(m)) <= places for n, m in pairs)


def agreements(found: dict[str, list[Outcome]], offered: Sequence[int]) -> dict[str, list[float]]:
    """Of each kind of pair: the share of same n, of n within one place, and of same verdicts."""
    grids, searches = found["grid"], found["search"]
    others = list(permutations(range(len(grids)), 2))
    kinds = {
        "two grids": [(grids[i], grids[j]) for i, j in others],
        "a search and another grid": [(searches[i], grids[j]) for i, j in others],
        "a search and its grid": list(zip(searches, grids, strict=True)),
    }
    asked: tuple[Callable[[Outcome, Outcome], float], ...] = (
        lambda a, b: near(a, b, offered, 0),
        lambda a, b: near(a, b, offered, 1),
        lambda a, b: float(a.verdict == b.verdict),
    )
    return {
        kind: [fmean(ask(a, b) for a, b in pairs) for ask in asked]
        for kind, pairs in kinds.items()
        if pairs
    }


def show(found: dict[str, list[Outcome]], options: Namespace) -> dict[str, float]:
    """Print both tables; what the goals ask."""
    budgets, offered = options.budgets, sorted(options.num_generations)
    rewards = {key: value for grid in found["grid"] for key, value in grid.rewards.items()}
    names = [f"n at {budget:g}" for budget in budgets]
    row = table("seeds", "way", "compute", *names, "verdict", "reward lost")
    shares, losses = [], []
    for number, pair in enumerate(zip(found["grid"], found["search"], strict=True)):
        first = options.first + number * options.seeds
        for way, outcome in zip(WAYS, pair, strict=True):
            loss, error = lost(outcome.chosen, rewards, budgets)
            share = outcome.compute / pair[0].compute
            seeds, cost = f"{first} to {first + options.seeds - 1}", f"{share:.0%}"
            lacks = f"{loss:.4f} ({error:.4f})" if loss else "0"
            row(seeds, way, cost, *outcome.chosen, f"`{outcome.verdict}`", lacks)
        shares.append(share)
        losses.append(loss)
    figures = {"compute": median(shares), "lost": max(losses)}
    known = agreements(found, offered)
    print()
    row = table("agreement of", "same n", "within one place", "same verdict")
    for kind, shares_agreed in known.items():
        row(kind, *(f"{share:.0%}" for share in shares_agreed))
    if "two grids" in known:
        between = known["two grids"][1]
        figures["agree"] = known["a search and another grid"][1] / max(between, 1e-9)
    return figures


@contextmanager
def directory(options: Namespace, name: str) -> Iterator[Path]:
    """Where a sweep goes: for the time being, or where it is kept."""
    if options.keep is None:
        with tempfile.TemporaryDirectory() as place:
            yield Path(place)
    else:
        place = options.keep.resolve() / name
        place.mkdir(parents=True, exist_ok=True)
        yield place


OPTIONS = {
    "--repetitions": 3,
    "--first": (200, "the first repetition's first seed"),
    "--seeds": (4, "of a repetition"),
    "--num-generations": [4, 8, 16, 32],
    "--budgets": [1e10, 2e10, 4e10],
    "--keep": {
        "metavar": "DIRECTORY",
        "type": Path,
        "help": "keep sweeps there, and go on with them",
    },
}


def measure(options: Namespace) -> dict[str, float]:
    """Train every repetition both ways, and print the tables."""
    if options.seeds < 2:
        raise UsageError(f"--seeds {options.seeds}: a search takes two at least")
    options.budgets.sort()
    found: dict[str, list[Outcome]] = {way: [] for way in WAYS}
    for repetition in range(options.repetitions):
        for way, outcomes in found.items():
            with directory(options, f"{repetition}-{way}") as place:
                outcomes.append(train(way, repetition, options, place))
            done = outcomes[-1]
            print(f"{repetition}, {way}: {done.compute:.3g} FLOPs, {done.verdict}", flush=True)
    return show(found, options)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
