"""Whether `search=tune` finds what a scan of all values at all seeds finds, for a third of it.

    python benchmarks/tune.py --sweeps 20 --noise 0.03
    python benchmarks/tune.py --real 10,11,12 20,21,22 30,31,32

Simulated: rewards over 8 values, 3 seeds and 4 budgets in worlds of several forms, by three ways:
the scan (everything), `tune`, and `optuna` (TPE and Hyperband, as `search=optuna`, with what `tune`
may spend). Lost: true reward at the largest budget by the value that came out best. `--real`: the
built-in model is trained on its task, with each set of seeds: a scan of the learning rate at two
cells, and `search=tune` in a directory of its own; the reward of the value that it chose and of the
scan's best are the scan's own means.
"""

import math
import os
import subprocess
import sys
import tempfile
import zlib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from frame import Goal, benchmark, table

from isosweep.analysis.load import load_view
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.search import SearchConfig
from isosweep.files import read_json
from isosweep.plan.cells import plan_from_document
from isosweep.search import by_optuna, halving
from isosweep.search.candidates import Question, standings
from isosweep.search.trials import Grid, Seen, Trained
from isosweep.store.paths import SweepPaths

CONFIG = AnalysisConfig(name="default", decades=0.0)
GOALS = {
    "harmless": Goal(
        "share of simulated sweeps within the margin, over the scan's", "at least", 0.9
    ),
    "compute": Goal("compute over the scan's, at most", "at most", 1 / 3),
    "real": Goal("reward lost against the best of a real scan, at worst", "at most", CONFIG.margin),
}
QUICK = {"sweeps": 3, "worlds": "parabola,cliff"}
VALUES, SEEDS, BUDGETS = 8, 3, (0.125, 0.25, 0.5, 1.0)
PLACES = tuple(2 ** (10 + k) for k in range(VALUES))
GRID = Grid(generations=PLACES, batches=(1,), seeds=tuple(range(SEEDS)), budgets=BUDGETS)
RATES = "[3.75e-5,7.5e-5,1.5e-4,3e-4,6e-4,1.2e-3,2.4e-3,4.8e-3]"


def world(name: str) -> np.ndarray:
    """True rewards: (values, budgets)."""
    x = np.arange(VALUES, dtype=float)[:, None]
    d = np.log2(BUDGETS)
    forms = {
        "parabola": 0.45 + 0.05 * d - 0.012 * (x - 4.3) ** 2,
        "narrow": 0.45 + 0.05 * d - 0.04 * (x - 3.6) ** 2,
        # The best value falls with compute.
        "drift": 0.45 + 0.05 * d - 0.012 * (x - (3.2 - 0.6 * d)) ** 2,
        "cliff": np.where(x < 5.5, 0.3 + 0.03 * x + 0.04 * d, 0.05),
        "latecliff": np.where(x < 4.5 - d / 3, 0.3 + 0.03 * x + 0.04 * d, 0.15),
        "flat": 0.45 + 0.05 * d - 0.001 * (x - 4) ** 2,
        "rising": 0.3 + 0.03 * x + 0.05 * d,
        "sigmoid": 0.2 + 0.4 / (1 + np.exp(3 - x - d)) - 0.02 * np.maximum(x - 4, 0) ** 2,
    }
    return np.clip(forms[name], 0.02, 1.0)


WORLDS = "parabola,narrow,drift,cliff,latecliff,flat,rising,sigmoid"


def drawn(truth: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Rewards of every run, (values, seeds, budgets): luck of a seed, of a run, and passing."""
    seed = rng.normal(size=(1, SEEDS, 1)) * 0.4
    run = rng.normal(size=(VALUES, SEEDS, 1)) * 0.8
    passing = rng.normal(size=(VALUES, SEEDS, len(BUDGETS))) * 0.5
    return np.clip(truth[:, None, :] + noise * (seed + run + passing), 0.0, 1.0)


def searched(by: ModuleType, config: SearchConfig, rewards: np.ndarray) -> dict[str, Trained]:
    """What a search trains, two runs at once."""
    runs: dict[str, Trained] = {}
    while True:
        plan, data = GRID.plan, Seen(grid=GRID, runs=runs).data
        at = standings(plan, data, {})
        asked = Question(
            plan=plan, data=data, at=at, config=config, analysis=CONFIG, count=2, seed=0
        )
        steps = by.decide(asked).steps
        if not steps:
            return runs
        for step in steps:
            key = GRID.runs[step.run_id]
            mine = rewards[PLACES.index(key.n), key.seed]
            known = runs.setdefault(step.run_id, Trained())
            known.rewards |= {
                k: float(mine[k]) for k, budget in enumerate(BUDGETS) if budget <= step.milestone
            }


def everything(rewards: np.ndarray) -> dict[str, Trained]:
    """The scan."""
    return {
        name: Trained(rewards=dict(enumerate(rewards[PLACES.index(key.n), key.seed].tolist())))
        for name, key in GRID.runs.items()
    }


def lost(truth: np.ndarray, runs: dict[str, Trained]) -> float:
    """True reward lost at the largest budget by what comes out best."""
    _, frontier = fit_budgets(Seen(grid=GRID, runs=runs).data, CONFIG)
    best = PLACES.index(frontier.budgets[-1].best.num_generations)
    return float(truth[:, -1].max() - truth[best, -1])


def spent(runs: dict[str, Trained]) -> float:
    """Compute, as a share of the scan's."""
    furthest = (BUDGETS[max(run.rewards)] for run in runs.values() if run.rewards)
    return math.fsum(furthest) / (VALUES * SEEDS)


def simulate(name: str, number: int, noise: float) -> dict[str, tuple[float, float]]:
    """Reward lost and compute by every way."""
    truth = world(name)
    rewards = drawn(truth, np.random.default_rng([number, zlib.crc32(name.encode())]), noise)
    limit = VALUES * SEEDS / 3
    tuned = SearchConfig(name="tune", kind="tune", max_compute=limit)
    classes = SearchConfig(
        name="optuna",
        kind="optuna",
        max_compute=limit,
        sampler="optuna.samplers.TPESampler",
        pruner="optuna.pruners.HyperbandPruner",
    )
    ways = {
        "scan": everything(rewards),
        "tune": searched(halving, tuned, rewards),
        "optuna": searched(by_optuna, classes, rewards),
    }
    return {way: (lost(truth, runs), spent(runs)) for way, runs in ways.items()}


def simulated(worlds: list[str], sweeps: int, noise: float) -> dict[str, float]:
    """Print the table; the figures of the goals."""
    row = table("world", "way", *COLUMNS)
    pooled: dict[str, list[tuple[float, float]]] = {}
    for name in worlds:
        found = [simulate(name, number, noise) for number in range(sweeps)]
        for way in found[0]:
            mine = [each[way] for each in found]
            pooled.setdefault(way, []).extend(mine)
            row(name, way, *(said(mine) for said in COLUMNS.values()))
    for way, mine in pooled.items():
        row("all", way, *(said(mine) for said in COLUMNS.values()))
    return {
        "harmless": within(pooled["tune"]) / within(pooled["scan"]),
        "compute": max(share for _, share in pooled["tune"]),
    }


def within(outcomes: list[tuple[float, float]]) -> float:
    """Share that lost no more than the margin."""
    return float(np.mean([each <= CONFIG.margin for each, _ in outcomes]))


COLUMNS: dict[str, Callable[[list[tuple[float, float]]], str]] = {
    "compute": lambda outcomes: f"{np.median([share for _, share in outcomes]):.0%}",
    "reward lost: mean": lambda outcomes: f"{np.mean([loss for loss, _ in outcomes]):.4f}",
    "within the margin": lambda outcomes: f"{within(outcomes):.0%}",
}


def real(seeds: str, budget: str, cells: list[list[int]], directory: Path) -> float:
    """Train a scan and a search with one set of seeds, print both; the reward lost at worst."""
    generations = ",".join(str(n) for n, _ in cells)
    shared = (
        f"grid.seeds=[{seeds}]",
        f"grid.axes={{recipe.learning_rate:{RATES}}}",
        f"grid.num_generations=[{generations}]",
        "tracking=none",
    )
    rungs = ",".join(f"{float(budget) * share:g}" for share in BUDGETS)
    places = {way: directory / f"{seeds.replace(',', '-')}-{way}" for way in ("scan", "tune")}
    for way, more in (("scan", ()), ("tune", ("search=tune", f"search.cells={cells}"))):
        place = places[way]
        command = [sys.executable, "-m", "isosweep", f"sweeps_dir={place}", f"sweep_dir={place}/s"]
        command += [f"budget=[{rungs}]", *shared, *(each.replace(" ", "") for each in more)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        if done.returncode:
            sys.exit(f"{way}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = read_json(places["tune"] / "s" / "analysis" / "tuning.json") or {}
    means = scan_means(places["scan"] / "s")
    worst = 0.0
    for cell in found["cells"]:
        n, chosen = cell["num_generations"], cell["best"]["values"]["recipe.learning_rate"]
        mine = means[n]
        best = max(mine, key=lambda rate: mine[rate])
        less = mine[best] - mine.get(chosen, 0.0)
        worst = max(worst, less)
        print(
            f"seeds {seeds}, n = {n}: tune {chosen:g} (reward {mine.get(chosen, 0.0):.4f} in the "
            f"scan), scan {best:g} ({mine[best]:.4f}): {less:.4f} lost, for "
            f"{found['share']:.0%} of its compute"
        )
    rules = ", ".join(f"{r['rule']} {r['agrees']} (loses {r['loss']})" for r in found["rules"])
    print(f"seeds {seeds}: exponent {found['exponent']}; {rules}", flush=True)
    return worst


def scan_means(root: Path) -> dict[int, dict[float, float]]:
    """Mean reward of every rate at the largest budget, by n; runs that fell count."""
    paths = SweepPaths(root=root, runs=root.parent / "runs")
    plan = plan_from_document(read_json(paths.plan) or {})
    rewards: dict[int, dict[float, list[float]]] = {}
    for axes in plan.axes:
        for reading in load_view(paths, CONFIG, axes).readings:
            reward = reading.fallen if reading.reward is None else reading.reward
            if reading.cell.budget == plan.budgets[-1] and reward is not None:
                of_n = rewards.setdefault(reading.cell.num_generations, {})
                of_n.setdefault(float(axes["recipe.learning_rate"]), []).append(reward)
    return {
        n: {rate: math.fsum(each) / len(each) for rate, each in of_n.items()}
        for n, of_n in rewards.items()
    }


OPTIONS = {
    "--sweeps": 20,
    "--noise": (0.03, "spread between runs, reward"),
    "--worlds": WORLDS,
    "--real": {"nargs": "*", "default": [], "metavar": "SEEDS", "help": "such as 10,11,12"},
    "--budget": ("8.1e10", "the largest of a real sweep, in FLOPs"),
    "--generations": ("8,32", "n of both cells of a real sweep"),
    "--directory": {"type": Path, "help": "where real sweeps are kept"},
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the tables; the figures of the goals."""
    if not options.real:
        return simulated(options.worlds.split(","), options.sweeps, options.noise)
    cells = [[int(n), 4] for n in options.generations.split(",")]
    with tempfile.TemporaryDirectory() as made:
        kept = options.directory or Path(made)
        return {"real": max(real(seeds, options.budget, cells, kept) for seeds in options.real)}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
