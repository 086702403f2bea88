"""How fast plans are made: `python benchmarks/plan.py`.

1. Candidates enumerated, costed, checked and grouped into runs, from 1e4 to 1e7, each in a
   process of its own on one core: seconds, peak memory, and the exponent of the growth.
2. `mode=plan` against a bare Hydra app that prints the same config: wall time and ratio, the two
   measured in turn.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from frame import Goal, benchmark

from isosweep.config.compose import declared_nodes

GOALS = {
    "seconds": Goal("seconds for 1e6 candidates", "at most", 0.25),
    "memory": Goal("peak MB with 1e6 candidates", "at most", 200.0),
    "ratio": Goal("mode=plan over a bare Hydra app", "at most", 2.0),
}
QUICK = {"sizes": [10**4, 10**6], "repeats": 5}
ROOT = Path(__file__).resolve().parent.parent
BUDGETS = 10
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# Every candidate has its own (n, B, budget): one seed, so that none is a copy of another.
PLAN = """
import resource, sys, time
from isosweep.config.compose import config_of
from isosweep.config.axes import combinations
from isosweep.plan.enumerate import enumerate_candidates

size, budgets = int(sys.argv[1]), int(sys.argv[2])
side = round((size / budgets) ** 0.5)
config = config_of([
    "model=qwen-1.5b",
    f"budget=logspace:1e19:1e21:{budgets}",
    f"grid.num_generations=[{','.join(str(2 + i) for i in range(size // budgets // side))}]",
    f"grid.problems_per_batch=[{','.join(str(1 + i) for i in range(side))}]",
])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
tables = enumerate_candidates(combinations(config))
runs = sum(int((table.longest >= 0).sum()) for table in tables)
cells = sum(int(table.feasible.sum()) for table in tables)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(t.steps.size for t in tables), seconds, peak / 1e3, before / 1e3, cells, runs)
"""

BARE = """
import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

for group, name, node in {nodes!r}:
    ConfigStore.instance().store(group=group, name=name, node=node)

@hydra.main(version_base="1.3", config_path={conf!r}, config_name="config")
def main(config):
    print(OmegaConf.to_yaml(config))

main()
"""


def growth(sizes: list[int]) -> dict[str, float]:
    """Print a line for each size, and the slope of log time on log size; the figures at 1e6."""
    figures: dict[str, float] = {}
    print(f"{'candidates':>12} {'seconds':>9} {'peak MB':>9} {'of it before':>13}  cells, runs")
    points = []
    for size in sizes:
        best: list[float] = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", PLAN, str(size), str(BUDGETS)],
                env={**os.environ, **ONE_THREAD},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            figured = [float(word) for word in done.stdout.split()]
            best = figured if not best or figured[1] < best[1] else best
        count, seconds, peak, before, cells, runs = best
        points.append((math.log(count), math.log(seconds)))
        if size == 10**6:
            figures = {"seconds": seconds, "memory": peak}
        print(
            f"{count:12,.0f} {seconds:9.3f} {peak:9,.0f} {before:13,.0f}  {cells:,.0f}, {runs:,.0f}"
        )
    if len(points) > 1:
        slope = statistics.linear_regression(*zip(*points, strict=True)).slope
        last = (points[-1][1] - points[-2][1]) / (points[-1][0] - points[-2][0])
        print(f"seconds grow as candidates^{slope:.2f} over all, ^{last:.2f} in the last step")
    return figures


def command_line(repeats: int) -> dict[str, float]:
    """Print the wall time of `mode=plan`, of the bare app, and their ratio, which it returns."""
    with tempfile.TemporaryDirectory() as directory:
        bare = Path(directory) / "bare.py"
        bare.write_text(BARE.format(conf=str(ROOT / "conf"), nodes=[*declared_nodes()]))
        overrides = ["mode=plan", "budget=1e20", "model=qwen-1.5b"]
        commands = {
            "bare": [sys.executable, str(bare), *overrides],
            "plan": [sys.executable, "-m", "isosweep", *overrides],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                began = time.perf_counter()
                subprocess.run(command, cwd=directory, capture_output=True, check=True)
                seconds[name].append(time.perf_counter() - began)
    plan, base = statistics.median(seconds["plan"]), statistics.median(seconds["bare"])
    ratio = statistics.median(p / b for p, b in zip(seconds["plan"], seconds["bare"], strict=True))
    print(
        f"mode=plan {plan:.2f} s, bare Hydra app {base:.2f} s, "
        f"ratio {ratio:.2f} (medians of {repeats}, in turn)"
    )
    return {"ratio": ratio}


OPTIONS = {
    "--sizes": ([10**4, 10**5, 10**6, 10**7], "candidates"),
    "--repeats": (9, "runs of each command"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Time both parts."""
    return growth(options.sizes) | command_line(options.repeats)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
