"""How often the analysis is right: simulated sweeps against planted truth, both methods.

    python benchmarks/coverage.py --sweeps 200 --design strong --worlds easy,flat

Prints one row a world and method. `strong`: n 8..2048, 10 budgets over 3 decades, 16 seeds, 1,024
problems x 8 samples (144 runs); `modest`: 5 budgets over 2 decades, 4 seeds, 256 x 8 (36 runs).
About 0.5 s (modest) to 1.5 s (strong) a sweep on one core.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
from concurrent.futures import ProcessPoolExecutor

from hydra import compose, initialize_config_dir

from isosweep.analysis.simulation.power import Power, measure_power
from isosweep.analysis.simulation.worlds import worlds
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.hydra import config_directory, from_hydra
from isosweep.config.simulation import WORLDS
from isosweep.plan.study import resolve

DESIGNS = {"strong": ("1e18:1e21:10", 16, 1024), "modest": ("1e18:1e20:5", 4, 256)}


def measure(design: str, world: str, method: str, sweeps: int) -> Power:
    """Power of one method in one world."""
    budgets, seeds, problems = DESIGNS[design]
    listed = ",".join(map(str, range(seeds)))
    overrides = [
        "model=qwen-0.5b",
        f"budget=logspace:{budgets}",
        "grid=fix_B",
        f"grid.seeds=[{listed}]",
        "grid.tolerance=0.05",
        "grid.max_epochs=1e6",
        "grid.max_steps=1e9",
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        plan = resolve(from_hydra(compose("config", overrides=overrides))).plan
    middle = math.sqrt(plan.budgets[0] * plan.budgets[-1])
    presets = worlds(middle, smallest_n=8, largest_n=2048)
    return measure_power(
        plan,
        presets[world],
        AnalysisConfig(name="default", method=method),
        sweeps=sweeps,
        seed=11,
        num_problems=problems,
        samples_per_problem=8,
    )


def row(power: Power) -> str:
    """One line of the table in docs/simulation.md."""
    verdicts = ", ".join(f"{name} {share:.1%}" for name, share in power.verdicts.items())
    covered = [at.covered for at in power.budgets if at.covered is not None]

    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.1%}"

    cells = (
        f"{power.world} ({power.true_verdict})",
        power.method,
        verdicts,
        share(sum(covered) / len(covered) if covered else None),
        share(power.plateau_covered),
        f"{share(power.asymptote_covered)} of {power.num_asymptotes}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--design", choices=sorted(DESIGNS), default="modest")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--methods", default="isosweep,playbook")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    print("| world (truth) | method | verdicts | n*(C) held | n_sat held | A held |")
    print("|---|---|---|---|---|---|")
    with ProcessPoolExecutor(chosen.processes) as pool:
        jobs = [
            pool.submit(measure, chosen.design, world, method, chosen.sweeps)
            for world in chosen.worlds.split(",")
            for method in chosen.methods.split(",")
        ]
        for job in jobs:
            print(row(job.result()), flush=True)


if __name__ == "__main__":
    main()
