"""Trivial jobs on Slurm from launch to all done: isosweep, bare submitit, and Hydra's launcher."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import submitit
from rich.console import Console

from isosweep.modes.follow import make_queue
from launching.sweeps import KEEP_STATE, ROOT, make_sweep, on_slurm
from tests.slurm.cluster import SlurmCluster

# What does all that a worker does but train.
WHOLE_WORKER = ROOT / "tests" / "trivial.py"
HYDRA_LAUNCHER = "hydra-submitit-launcher==1.2.0"
HYDRA_APP = """
import sys, time
import hydra

@hydra.main(version_base="1.3", config_path=None)
def main(config):
    return abs(config.x)

began = time.perf_counter()
main()
print("seconds", time.perf_counter() - began)
"""
# Each job of submitit and Hydra asks for what isosweep's do.
_CPUS, _MEMORY_GB, _MINUTES = 1, 1, 30

Turn = Callable[[Path], float]


def compare(
    cluster: SlurmCluster, jobs: int, rounds: int, *, whole: bool = True
) -> dict[str, float]:
    """Print seconds of each side, which take turns; isosweep's over submitit's, by round.

    `whole`: also with jobs that do all that a worker does, but train.
    """
    with tempfile.TemporaryDirectory() as place:
        plugin = _hydra_launcher(Path(place) / "plugin")
        sides: dict[str, Turn] = {
            "isosweep": partial(_isosweep, KEEP_STATE, jobs),
            "submitit": partial(_submitit, jobs),
        }
        if whole:
            sides["isosweep, worker"] = partial(_isosweep, WHOLE_WORKER, jobs)
        if plugin is not None:
            sides["Hydra's launcher"] = partial(_hydra, jobs, plugin)
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds):
            names = list(sides)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                directory = Path(place) / f"{number}-{names.index(name)}"
                directory.mkdir()
                seconds[name].append(sides[name](directory))
                _until_empty(cluster)
    print(f"{jobs} trivial jobs on Slurm, from launch to all done, {rounds} rounds in turn")
    bare = seconds["submitit"]
    print(f"{'':18}{'seconds':>9}{'fastest':>9}{'slowest':>9}{'over submitit':>15}")
    ratios = {}
    for name, each in seconds.items():
        ratios[name] = statistics.median(a / b for a, b in zip(each, bare, strict=True))
        print(
            f"{name:18}{statistics.median(each):9.1f}{min(each):9.1f}{max(each):9.1f}"
            f"{ratios[name]:15.2f}"
        )
    if plugin is None:
        print(f"Hydra's launcher is left out: pip could not install {HYDRA_LAUNCHER}")
    return {"launch": ratios["isosweep"]}


def _isosweep(worker: Path, jobs: int, directory: Path) -> float:
    sweep = make_sweep(directory, jobs, *on_slurm(worker))
    began = time.perf_counter()
    queue = make_queue(sweep, Console())
    while queue.busy:
        queue.step()
        time.sleep(queue.pause_s)
    seconds = time.perf_counter() - began
    if queue.failed:
        raise RuntimeError(next(iter(queue.failed.values())))
    return seconds


def _submitit(jobs: int, directory: Path) -> float:
    began = time.perf_counter()
    executor = submitit.AutoExecutor(directory, cluster="slurm")
    executor.update_parameters(
        cpus_per_task=_CPUS,
        mem_gb=_MEMORY_GB,
        timeout_min=_MINUTES,
        slurm_array_parallelism=jobs,
    )
    for job in executor.map_array(abs, range(jobs)):
        job.result()
    return time.perf_counter() - began


def _hydra_launcher(directory: Path) -> Path | None:
    """Where Hydra's launcher for submitit was installed, alone; None where it cannot be had."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command = [*pip, "--target", str(directory), HYDRA_LAUNCHER]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return directory if done.returncode == 0 else None


def _hydra(jobs: int, plugin: Path, directory: Path) -> float:
    app = directory / "app.py"
    app.write_text(HYDRA_APP)
    settings = {
        "cpus_per_task": _CPUS,
        "mem_gb": _MEMORY_GB,
        "timeout_min": _MINUTES,
        "array_parallelism": jobs,
    }
    words = [
        *(sys.executable, str(app), "-m", "hydra/launcher=submitit_slurm"),
        *(f"hydra.launcher.{name}={value}" for name, value in settings.items()),
        f"+x=range({jobs})",
    ]
    path = os.pathsep.join([str(plugin), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.rsplit("seconds ", 1)[1])


def _until_empty(cluster: SlurmCluster) -> None:
    """Return once the cluster has no jobs: a turn pays for none of another's."""
    while cluster.run("squeue", "-h"):
        time.sleep(0.2)
