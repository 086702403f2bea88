"""What a generator beside its trainer saves: `python benchmarks/overlap.py`.

Seconds of a step of three runs of the built-in model (task sort, recipe tiny, B = 8), each a worker
of its own on one thread: on-policy, `recipe.rollout_lag`, and that lag with
`generation.overlap=true`, whose second process has a thread of its own. A round takes all three,
one after the other, so that the machine's load hits them alike: ratios are formed within a round,
and their median and range are printed. A step's seconds are the median over a run's steps, without
the first ones. Evaluation is small and rare. The load is that of the machine as each round begins:
above its cores less two, the second process has no core of its own.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import itertools
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from frame import Goal, benchmark
from worker import LITTLE_EVALUATION, prepare

from isosweep.store.records import read_metrics, read_records

GOALS = {
    "lag": Goal("a step with overlap over one of the same lag, largest median", "at most", 1.0),
    "none": Goal("a step with overlap over an on-policy one, largest median", "at most", 1.1),
}
QUICK = {"num_generations": [16], "steps": 20, "rounds": 3}
OPTIONS = {
    "--num-generations": [16, 64],
    "--lag": 1,
    "--steps": (40, "steps of a run"),
    "--rounds": 5,
}
# Steps that are not looked at: the first ones of a lag wait for rollouts.
LEFT_OUT = 5
WORK = """
import sys
from isosweep.config.study import HealthConfig
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun
train_unsubmitted(TrainRun(sys.argv[1], (float(sys.argv[2]),), "rollouts", HealthConfig()))
"""


def step_seconds(n: int, steps: int, *changes: str) -> tuple[float, float]:
    """Of a run of so many steps: seconds of one, and the share of it that updates take."""
    with tempfile.TemporaryDirectory() as directory:
        run, _, rollouts = prepare(Path(directory), n, steps, *LITTLE_EVALUATION, *changes)
        command = [sys.executable, "-c", WORK, str(run.root), f"{rollouts:g}"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        times = [line["time"] for line in read_metrics(run.metrics, run.records)][LEFT_OUT:]
        spent = read_records(run.records).records[-1].compute
    seconds = statistics.median(b - a for a, b in itertools.pairwise(times))
    parts = spent.generation_seconds + spent.reward_seconds + spent.scoring_seconds
    return seconds, spent.training_seconds / (spent.training_seconds + parts)


def measure(options: Namespace) -> dict[str, float]:
    """Time steps, and print what they take."""
    lag = f"recipe.rollout_lag={options.lag}"
    sides = {"none": (), "lag": (lag,), "overlap": (lag, "generation.overlap=true")}
    print(f"ms a step, medians of {options.rounds} rounds; B = 8, {lag}, {os.cpu_count()} cores")
    titles = "".join(f"{side:>9}" for side in sides)
    print(f"{'n':>4}{titles}   overlap / lag      overlap / none     updates   load")
    figures = {"lag": 0.0, "none": 0.0}
    for n in options.num_generations:
        took: dict[str, list[float]] = {side: [] for side in sides}
        loads, share = [], 0.0
        for _ in range(options.rounds):
            loads.append(os.getloadavg()[0])
            for side, changes in sides.items():
                seconds, share = step_seconds(n, options.steps, *changes)
                took[side].append(seconds)
        medians = "".join(f"{statistics.median(each) * 1e3:9.1f}" for each in took.values())
        shown = []
        for side in figures:
            ratios = [a / b for a, b in zip(took["overlap"], took[side], strict=True)]
            middle = statistics.median(ratios)
            figures[side] = max(figures[side], middle)
            shown.append(f"{middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
        loaded = f"{min(loads):.1f}-{max(loads):.1f}"
        print(f"{n:4}{medians}   {shown[0]:<18} {shown[1]:<18} {share:6.0%}   {loaded}")
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
