"""What launching and following a sweep costs: `python benchmarks/launch.py`.

1. Trivial jobs on a real Slurm of 4 nodes, from launch to all done: isosweep's queue, bare submitit
   (`map_array`), and Hydra's launcher for submitit, in turn. A job keeps its run's state and no
   more: it begins its attempt, takes two records, and ends it. Beside that, jobs that
   do all that a worker does but train.
2. Calls of Slurm's commands a minute by a driver, by the number of live runs. Every 20 s a run
   ends, and every minute a job without a word. The commands are ones that answer from files.
3. The time of a mixed sweep (1 to 12 predicted hours) over its lower bound: all work shared evenly,
   or the longest run. With processes that sleep, here and on Slurm, what counts as a run's work is
   what its process takes; simulated, with predictions that are exact, and that are off by 30%.
4. Seconds and memory of those who read a sweep directory of many runs: `mode=status`, a pass of the
   driver while all workers write heartbeats, its progress, and the load for the analysis.

What needs Slurm (its daemons, and root) is left out where that is missing.
"""

import contextlib
import os
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from frame import Goal, benchmark
from launching import calls, large, makespan, trivial
from launching.sweeps import memory

from tests.slurm.cluster import SlurmCluster, missing_parts

GOALS = {
    "launch": Goal("trivial jobs on Slurm, over bare submitit", "at most", 1.15),
    "calls": Goal("calls of Slurm's commands a minute, the most", "at most", 6.0),
    "local": Goal("a mixed sweep here, over its bound", "at most", 1.05),
    "slurm": Goal("a mixed sweep on Slurm, over its bound, the most", "at most", 1.05),
    "simulated": Goal("a simulated sweep, over its bound", "at most", 1.05),
    "status": Goal("seconds of mode=status", "at most", 2.0),
    "pass": Goal("seconds of a driver's pass", "at most", 0.5),
    "redraw": Goal("seconds of CPU of a redraw", "at most", 0.05),
    "load": Goal("seconds to load for the analysis", "at most", 4.0),
}
QUICK = {
    "jobs": 40,
    "rounds": 1,
    "live": [20, 200],
    "minutes": 2.0,
    "bound": 20.0,
    "simulated": [500, 50],
    "runs": 1000,
}
# By whom runs are held to so many at once; jobs of four CPUs fill the cluster's nodes with as many.
PLACES = 8
ON_SLURM = {
    "Slurm, by its nodes": "launcher.slurm.cpus_per_task=4",
    "Slurm, by max_parallel": f"launcher.max_parallel={PLACES}",
}
# As many as an array may have by Slurm's default.
ARRAY_SIZE = 1001


@contextlib.contextmanager
def slurm() -> Iterator[SlurmCluster | None]:
    """A cluster of this machine; None, and why, where there can be none."""
    if missing := missing_parts():
        print(f"no Slurm can run on this machine, it lacks: {', '.join(missing)}")
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as directory,
        SlurmCluster(Path(directory), max_array_size=ARRAY_SIZE) as cluster,
    ):
        os.environ.update(cluster.environment)
        yield cluster


def makespans(options: Namespace, *, with_slurm: bool) -> dict[str, float]:
    """Print the time of mixed sweeps over their bounds; the figures."""
    runs, devices = options.simulated
    print(f"time of a mixed sweep over its lower bound, {options.bound:g} s where runs sleep")
    figures = {"local": _told("here, 4 places", makespan.here, options.mixed, 4, options.bound)}
    for name, override in ON_SLURM.items() if with_slurm else ():
        ratio = _told(name, makespan.on_cluster, options.mixed, PLACES, options.bound, override)
        figures["slurm"] = max(ratio, figures.get("slurm", 0.0))
    name = f"simulated, {runs:,} runs, {devices:,} devices"
    figures["simulated"] = _told(name, makespan.simulated, runs, devices)
    _told(f"{name}, off by 30%", makespan.simulated, runs, devices, 0.3)
    return figures


def _told(name: str, measure: Callable[..., float], *given: object) -> float:
    ratio = measure(*given)
    print(f"{name:48}{ratio:7.3f}")
    return ratio


PARTS = ("trivial", "calls", "makespan", "directory")
OPTIONS = {
    "--parts": {"nargs": "+", "choices": PARTS, "default": PARTS},
    "--jobs": (200, "trivial ones"),
    "--rounds": (3, "in which launchers take turns"),
    "--live": ([20, 200, 2000], "live runs"),
    "--minutes": (5.0, "in which calls are counted"),
    "--mixed": (40, "runs of a mixed sweep"),
    "--bound": (200.0, "seconds of a mixed sweep"),
    "--simulated": {
        "nargs": 2,
        "type": int,
        "default": [10_000, 1_000],
        "help": "runs, and devices",
    },
    "--runs": (10_000, "of the sweep directory"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Measure the parts that are asked for."""
    figures: dict[str, float] = {}
    with (
        slurm() if {"trivial", "makespan"} & {*options.parts} else contextlib.nullcontext() as there
    ):
        if "trivial" in options.parts and there is not None:
            whole = not options.quick
            figures |= trivial.compare(there, options.jobs, options.rounds, whole=whole)
        if "makespan" in options.parts:
            figures |= makespans(options, with_slurm=there is not None)
    if "calls" in options.parts:
        figures |= calls.table(options.live, options.minutes)
    if "directory" in options.parts:
        with memory() as directory:
            figures |= large.table(directory, options.runs)
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
