"""The sixty simulated sweeps of `sweeps.csv.xz`: thirty worlds, each with ten runs (twelve where
there are several B) and with 36.

    PYTHONPATH=benchmarks:. python -m tests.contract.make_sweeps

writes them anew, which no change of the analysis needs: the table is data, as if from elsewhere,
and what was simulated once stays what is analysed. This file alone may use what is no public
surface.

A row is one held-out evaluation. `sweep` is `<runs> <world>`. A column that is empty for a whole
sweep is none of its table; in `flops` or `rollouts` lies the compute.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd

from isosweep.analysis.simulation.planted import PlantedWorld
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import read_plan, wide_config
from isosweep.analysis.simulation.worlds import World
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from isosweep.plan.study import resolve
from tests.contract.stored_numbers import SWEEPS

# Leaves rows out of a table, or changes them.
Spoil = Callable[[pd.DataFrame], pd.DataFrame]
MARGIN = 0.02
# Over so many decades below the smallest budget lies the course of n*.
DECADES = {"ten": 2.0, "36": 0.0}
# n and seeds of a design where every n has several B, and the B.
SEVERAL_B = {
    "ten": ("grid.num_generations=[8,32,128]", "grid.seeds=[0,1]"),
    "36": (f"grid.num_generations={[8 << k for k in range(9)]}", "grid.seeds=[0,1]"),
}
GRIDS: dict[str, tuple[str, ...]] = {
    "ten": ("budget=1e20", "grid.num_generations=[8,16,32,64,128]", "grid.seeds=[0,1]"),
    "36": (
        "budget=logspace:1e18:1e21:9",
        f"grid.num_generations={[8 << k for k in range(9)]}",
        "grid.seeds=[0,1,2,3]",
    ),
}


def without_middle(table: pd.DataFrame) -> pd.DataFrame:
    """No run of one n amid the grid."""
    generations = sorted(set(table.n))
    return table[table.n != generations[len(generations) // 2]]


def uneven(table: pd.DataFrame) -> pd.DataFrame:
    """Every run ends somewhere in the last 0.8 decades."""
    rng = np.random.default_rng(1)
    ends = {run: table.flops.max() / 10 ** rng.uniform(0, 0.8) for run, _ in table.groupby(RUN)}
    return table[[row.flops <= ends[row.n, row.B, row.seed] for row in table.itertuples()]]


def one_collapsed(table: pd.DataFrame) -> pd.DataFrame:
    """Seed 1 of the second largest n falls to half of what it began with."""
    falls = (table.n == sorted(set(table.n))[-2]) & (table.seed == 1)
    fell = table.eval_reward.where(~falls | (table.flops < table.flops.max() / 5), 0.2)
    return table.assign(eval_reward=fell)


def sparse(table: pd.DataFrame) -> pd.DataFrame:
    """Of seed 0 every third evaluation."""
    place = table.groupby(RUN).cumcount()
    return table[(table.seed > 0) | (place % 3 == 0)]


def one_seed(table: pd.DataFrame) -> pd.DataFrame:
    """No second seed, so that no spread is known."""
    return table[table.seed == 0]


@dataclass(frozen=True, kw_only=True)
class Made:
    """How one world's sweeps are made."""

    preset: str
    case: tuple[str, str] | None = None
    """A kind of `benchmarks/kinds.py`, and which case of it."""
    spoil: Spoil = lambda table: table
    grid: Literal["fix_B", "fix_batch", "several_B"] = "fix_B"
    unit: Literal["flops", "rollouts"] = "flops"
    told: Literal["errors", "rewards", "counts"] = "errors"
    """What is told of an evaluation besides its reward: its standard error, nothing, or how many of
    eight samples of each problem were right."""


RUN = ["n", "B", "seed"]
WORLDS: dict[str, Made] = {
    **{
        name: Made(preset=name)
        for name in (
            *("easy", "flat", "growing", "unstable", "constant", "plateau"),
            *("logarithm", "straight", "return", "bump", "near_040"),
        )
    },
    **{
        name: Made(preset=name, told="rewards")
        for name in ("hard", "quiet", "early", "dip", "two_humps", "uneven")
    },
    "overfitting": Made(preset="overfitting", told="counts"),
    "batch": Made(preset="batch", grid="fix_batch"),
    "several B": Made(preset="batch", grid="several_B"),
    "behind": Made(preset="plateau", case=("behind", "plateau 0.7")),
    "far behind": Made(preset="return", case=("behind", "return 1.3")),
    "holes": Made(preset="logarithm", case=("holes", "logarithm 1.0")),
    "sharp": Made(preset="straight", case=("sharp", "straight 0.02")),
    "hair": Made(preset="constant", case=("hair", "largest")),
    "n missing": Made(preset="plateau", spoil=without_middle, told="counts"),
    "uneven lengths": Made(preset="slow_tail", spoil=uneven),
    "one collapsed": Made(preset="plateau", spoil=one_collapsed),
    "sparse": Made(preset="plateau", spoil=sparse, unit="rollouts"),
    "one seed": Made(preset="plateau", spoil=one_seed),
}


def simulate(runs: str, name: str) -> pd.DataFrame:
    """The table of one sweep."""
    made = WORLDS[name]
    plan = make_plan(runs, made.grid)
    whole = read_plan(
        plan, AnalysisConfig(name="default", readings_per_decade=5, decades=DECADES[runs])
    )
    world, kept = find_world(made, whole)
    problems = 96 if made.told == "counts" else 4096
    records = simulate_records(
        world,
        plan,
        [len(runs), *name.encode()],
        num_problems=problems,
        samples_per_problem=8,
    )
    rows: list[dict[str, Any]] = []
    for run in plan.runs:
        n = run.num_generations
        for record in records[run.run_id]:
            flops = record.compute.spent("flops")
            if not kept(n, flops, whole):
                continue
            reward = record.reward
            rows.append(
                {
                    "sweep": f"{runs} {name}",
                    "n": n,
                    "B": run.problems_per_batch,
                    "seed": run.seed,
                    "step": record.step,
                    "flops": float(f"{flops:.6g}"),
                    "rollouts": record.compute.rollouts,
                    "eval_reward": round(reward, 4),
                    "standard_error": round(math.sqrt(reward * (1 - reward) / problems / 8), 5),
                    "successes": list(record.successes),
                    "samples": 8,
                }
            )
    table = made.spoil(pd.DataFrame(rows))
    left_out = {
        "errors": ["successes", "samples"],
        "rewards": ["successes", "samples", "standard_error"],
        "counts": ["eval_reward", "standard_error"],
    }[made.told]
    left_out.append("rollouts" if made.unit == "flops" else "flops")
    return table.drop(columns=left_out)


def make_plan(runs: str, grid: str) -> Plan:
    """The plan of a design, whatever it would cost."""
    budget, *_ = overrides = list(GRIDS[runs])
    if grid == "several_B":
        overrides = [budget, *SEVERAL_B[runs], "grid.problems_per_batch=[8,32]"]
    if grid == "fix_batch":
        generations = [int(n) for n in GRIDS[runs][1].partition("[")[2][:-1].split(",")]
        overrides += [
            f"grid.problems_per_batch={[16384 // n for n in generations]}",
            "grid.completions_per_step=[16384]",
        ]
    joint = "fix_B" if grid == "several_B" else grid
    overrides.append(f"grid={joint}")
    return resolve(wide_config(*overrides)).plan


def find_world(made: Made, plan: Plan) -> tuple[World, Callable[[int, float, Plan], bool]]:
    """The world for the plan, and which records there are."""
    world = presets_of(plan)[made.preset]
    if made.case is None:
        return world, lambda n, compute, plan: True
    kind, name = made.case
    case = import_module("kinds").cases(MARGIN)[kind][name]
    if case.world is not None:
        assert isinstance(world, PlantedWorld)
        world = case.world(replace(world), plan)
    return world, case.kept


if __name__ == "__main__":
    tables = [simulate(runs, name) for runs in GRIDS for name in WORLDS]
    pd.concat(tables).to_csv(SWEEPS, index=False, compression={"method": "xz", "preset": 9})
