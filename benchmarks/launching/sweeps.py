"""The sweeps that are launched: planned as ever, and written where a benchmark wants them."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from isosweep.compute import Compute
from isosweep.config.compose import config_of
from isosweep.modes.follow import DrivenSweep
from isosweep.modes.sweeps import store_plan, sweep_paths
from isosweep.plan.study import resolve
from isosweep.store.attempts import Attempt, Status

ROOT = Path(__file__).resolve().parents[2]
# What takes the place of an interpreter where a job is only to keep its run's state.
KEEP_STATE = Path(__file__).with_name("keep_state.py")
# Runs that cost nothing to plan: two of each seed.
_SMALL = (
    "budget=1e10",
    "grid.num_generations=[2,4]",
    "grid.problems_per_batch=[4]",
    "grid.tolerance=0.02",
    "tracking=none",
)


def make_sweep(root: Path, runs: int, *overrides: str) -> DrivenSweep:
    """A sweep of `runs` runs, an even number, planned and stored in `root`."""
    seeds = f"grid.seeds={list(range(runs // 2))}"
    study = resolve(config_of([*_SMALL, seeds, f"sweeps_dir={root}", *overrides]))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return DrivenSweep(study=study, paths=paths)


def on_slurm(worker: Path) -> tuple[str, ...]:
    """Overrides by which each run is a job of one CPU that executes `worker`."""
    return (
        "launcher=slurm",
        "launcher.slurm.cpus_per_task=1",
        "launcher.slurm.mem_gb=1",
        f"launcher.slurm.python={sys.executable} {worker}",
    )


class Clock:
    """Time that passes only where it is set, in the place of `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def finish(attempt: Attempt) -> None:
    """The last words of a worker whose attempt has begun."""
    spent = Compute(generations=1, training_flops=attempt.job["milestones"][-1])
    replace(attempt, status=Status.FINISHED, compute=spent, finished=spent).write()


@contextmanager
def memory() -> Iterator[Path]:
    """A directory in memory, where there is such a thing: what is measured is not the disk."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)
