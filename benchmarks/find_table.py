"""Makes `analysis/simulation/findable.json`: what simulated sweeps of 72 designs find.

    python benchmarks/find_table.py --processes 2

takes about 25 minutes. The sweeps have one budget, read at smaller ones five times a decade, one B,
n a doubling apart, and avg@8. Their worlds are six `presets`, stretched over the compute that is
read and over the n from the smallest up to the one at which growth ends: three in which it ends by
two thirds of the compute, and three in which it goes on. A world counts by what is true of it for
the design (`truth`), and not at all where that is within chance of the bounds by which verdicts
differ.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from kinds import OPEN, is_clear

from isosweep.analysis.simulation.findable import COUNTS, GRID, JUDGED_BY, SAMPLES, TABLE, TRUE
from isosweep.analysis.simulation.presets import delayed_worlds, planted_worlds
from isosweep.analysis.simulation.sweep import read_plan, sweep_of, wide_config
from isosweep.analysis.simulation.truth import find_truth
from isosweep.analysis.simulation.worlds import World
from isosweep.analysis.statistics.verdict import judge
from isosweep.config.sweep import SweepConfig
from isosweep.files import write_json
from isosweep.plan.study import resolve

WORLDS = ("plateau", "early", "easy", "slow_tail", "logarithm", "straight")
# Where the presets' growth ends, as a share of the doublings that they are stretched over.
PLATEAU = 0.75
SMALLEST_N = 4


def make_table(sweeps: int, processes: int) -> dict[str, Any]:
    """What `findable.json` holds, from `sweeps` simulated sweeps of each design in each world.

    About half a second a sweep; standard error has a line of each design.
    """
    designs = [dict(zip(GRID, v, strict=True)) for v in itertools.product(*GRID.values())]
    counts: dict[str, list[int]] = {kind: [] for kind in TRUE.values()}
    with ProcessPoolExecutor(processes) as pool:
        for design, found in zip(
            designs, pool.map(partial(counted, sweeps=sweeps), designs), strict=True
        ):
            sys.stderr.write(f"{design}: {found}\n")
            for kind, all_of_it in counts.items():
                all_of_it += found[kind]
    return {
        "version": 3,
        "made_by": f"python benchmarks/find_table.py --sweeps {sweeps}",
        "worlds": WORLDS,
        "samples_per_problem": SAMPLES,
        "analysis": dict(JUDGED_BY),
        "designs": {name: list(values) for name, values in GRID.items()},
        "counts": counts,
    }


def counted(design: Mapping[str, float], sweeps: int) -> dict[str, list[int]]:
    """`COUNTS` of each kind of world."""
    config = _config(design)
    plan = resolve(config).plan
    read = read_plan(plan, config.analysis)
    counts = {kind: np.zeros(len(COUNTS), int) for kind in TRUE.values()}
    for world in _stretched(read.budgets, design["below"]):
        truth = find_truth(world, read, config.analysis)
        if truth.verdict not in TRUE or not is_clear(truth, config.analysis.growth_bound):
            continue
        for number in range(sweeps):
            data = sweep_of(
                world,
                plan,
                config.analysis,
                (0, number),
                num_problems=int(design["problems"]),
                samples_per_problem=SAMPLES,
            )
            verdict = judge(data, config.analysis)[2].verdict
            so = truth.bears(verdict)
            decided = so and verdict not in OPEN
            surely = decided and not verdict.startswith("probably ")
            false = not so and verdict != "not identified"
            counts[TRUE[truth.verdict]] += (1, surely, decided, false)
    return {kind: counted.tolist() for kind, counted in counts.items()}


def _stretched(budgets: tuple[float, ...], below: float) -> Iterator[World]:
    """`WORLDS`, growth of n* ending so many doublings above the smallest n."""
    first, last, middle = budgets[0], budgets[-1], math.sqrt(budgets[0] * budgets[-1])
    known = {
        **planted_worlds(first, last, SMALLEST_N, SMALLEST_N * 2 ** (below / PLATEAU)),
        # These end two doublings below the largest n.
        **delayed_worlds(middle, SMALLEST_N, SMALLEST_N * 2 ** (below + 2)),
    }
    return (known[name] for name in WORLDS)


def _config(design: Mapping[str, float]) -> SweepConfig:
    """Settings of a sweep of that design."""
    doublings = int(design["below"] + design["headroom"])
    generations = [SMALLEST_N * 2**k for k in range(doublings + 1)]
    return wide_config(
        "grid=fix_B",
        "budget=1e21",
        f"grid.num_generations={generations}",
        f"grid.seeds={list(range(int(design['runs_of_each_n'])))}",
        f"analysis.decades={design['decades']}",
        *(f"analysis.{name}={value}" for name, value in JUDGED_BY.items()),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=8, help="of every design and world")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    write_json(TABLE, make_table(asked.sweeps, asked.processes))
