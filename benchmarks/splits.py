"""Splits of four devices between generators and trainers, planned against measured.

    python benchmarks/splits.py --rounds 3

A device is half a core: every process of a run has a control group (version 1, `cpu`) of its own,
with a quota. The built-in model (task sort, recipe tiny, B = 8) trains on one device in turn, whose
seconds of generating, scoring and learning calibrate the plan; then on 1 + 3, 2 + 2 and 3 + 1
devices, trainers + generators, beside each other. A step's seconds are the median over a run's
steps without the first ones, and those printed the median over rounds, with their range. Takes root
and two cores, which nothing else should use.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from frame import Goal, UsageError, benchmark, table
from overlap import LEFT_OUT, WORK
from worker import LITTLE_EVALUATION, PROBLEMS_PER_BATCH, prepare

from isosweep.config.hydra import config_of
from isosweep.costs.overlap import paced
from isosweep.costs.timing import StepSeconds
from isosweep.plan.study import resolve
from isosweep.store.records import read_metrics, read_records

GOALS = {"off": Goal("times that a planned step is off the measured one", "at most", 1.5)}
QUICK = {"steps": 20, "rounds": 1}
OPTIONS = {
    "--num-generations": (12, "a multiple of 3: three devices share n x 8"),
    "--steps": (40, "steps of a run"),
    "--rounds": 3,
    "--share": (0.5, "of a core, that is a device"),
}
SPLITS = ((1, 3), (2, 2), (3, 1))
LAG = "recipe.rollout_lag=1"
_GROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 10_000


class Parts(NamedTuple):
    """Seconds of a step, and of what it consists of."""

    step: float
    generating: float
    scoring: float

    @property
    def learning(self) -> float:
        """All that a trainer does which has a generator beside it."""
        return self.step - self.generating - self.scoring


def changes(trainers: int, generators: int) -> list[str]:
    """Settings of so many devices; no generators: they sample and train in turn."""
    devices = [LAG, f"hardware.devices_per_run={trainers}"]
    if trainers > 1:
        devices.append("hardware.interconnect_bandwidth=1e10")
    if generators:
        devices += ["generation.overlap=true", f"generation.overlap_devices={generators}"]
    return devices


@contextmanager
def groups() -> Iterator[Path]:
    """A control group of this process alone, below which devices are made."""
    root = _GROUPS / f"isosweep-{os.getpid()}"
    try:
        root.mkdir()
    except OSError as error:
        raise UsageError(f"no control group can be made in {_GROUPS}: {error.strerror}") from None
    try:
        yield root
    finally:
        for group in [*root.iterdir(), root]:
            if group.is_dir():
                group.rmdir()


def train(command: list[str], root: Path, share: float) -> None:
    """Run it, and give each process of it a device of its own."""
    known: set[int] = set()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
        while worker.poll() is None:
            with suppress(psutil.NoSuchProcess):
                found = psutil.Process(worker.pid)
                pids = {worker.pid, *(each.pid for each in found.children(recursive=True))}
                for pid in pids - known:
                    group = root / str(pid)
                    group.mkdir(exist_ok=True)
                    (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                    (group / "cpu.cfs_quota_us").write_text(str(round(share * _PERIOD_US)))
                    with suppress(OSError):
                        (group / "cgroup.procs").write_text(str(pid))
                known |= pids
            time.sleep(0.02)
    for group in root.iterdir():
        if group.is_dir():
            group.rmdir()
    if worker.returncode:
        raise UsageError(f"a run ended with status {worker.returncode}")


def measured(trainers: int, generators: int, options: Namespace, root: Path) -> Parts:
    """Of a run."""
    with tempfile.TemporaryDirectory() as directory:
        asked = (options.num_generations, options.steps, *LITTLE_EVALUATION)
        run, _, rollouts = prepare(Path(directory), *asked, *changes(trainers, generators))
        command = [sys.executable, "-c", WORK, str(run.root), f"{rollouts:g}"]
        train(command, root, options.share)
        times = [line["time"] for line in read_metrics(run.metrics, run.records)][LEFT_OUT:]
        records = read_records(run.records).records
    first, last = records[0], records[-1]
    steps = last.step - first.step

    def of_a_step(*names: str) -> float:
        spent = (getattr(last.compute, name) - getattr(first.compute, name) for name in names)
        return sum(spent) / steps

    return Parts(
        statistics.median(b - a for a, b in itertools.pairwise(times)),
        of_a_step("generation_seconds"),
        of_a_step("reward_seconds", "scoring_seconds"),
    )


def planned(trainers: int, generators: int, n: int) -> StepSeconds:
    """The plan's seconds of a step, by the assumed speed of a device."""
    overrides = [
        "budget_unit=rollouts",
        f"budget={n * PROBLEMS_PER_BATCH * 100}",
        f"grid.num_generations=[{n}]",
        f"grid.problems_per_batch=[{PROBLEMS_PER_BATCH}]",
        *changes(trainers, generators),
    ]
    (candidates,) = resolve(config_of(overrides)).candidates
    return candidates.phases


def calibrated(split: StepSeconds, one: StepSeconds, device: Parts) -> float:
    """Seconds of a step of a split, by what one device took. `one`: the plan of 1 + 1."""
    assert split.beside is not None
    assert one.beside is not None
    generating = device.generating / one.generation
    scoring = device.scoring / one.beside.scoring
    learning = device.learning / (one.training + one.update + one.overhead)
    step = paced(
        generating * split.generation + scoring * split.beside.scoring,
        learning * (split.training + split.update + split.overhead),
        generating * split.beside.spread,
    )
    return float(np.ravel(step)[0]) + split.beside.transfer


def measure(options: Namespace) -> dict[str, float]:
    """Train by turns, and print what is planned of each split beside it."""
    n = options.num_generations
    if n % 3:
        raise UsageError(f"--num-generations {n}: three devices share n x 8, so it is 3, 6, 9, ...")
    took: dict[tuple[int, int], list[Parts]] = {}
    with groups() as root:
        for _ in range(options.rounds):
            for split in ((1, 0), *SPLITS):
                took.setdefault(split, []).append(measured(*split, options, root))
    device = Parts(*map(statistics.median, zip(*took[1, 0], strict=True)))
    print(
        f"one device in turn, ms: {device.step * 1e3:.0f}, of which {device.generating * 1e3:.0f} "
        f"generating, {device.scoring * 1e3:.0f} scoring, {device.learning * 1e3:.0f} learning; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    row = table("trainers + generators", "planned, ms", "measured, ms", "planned / measured")
    one, off = planned(1, 1, n), []
    for split in SPLITS:
        expected = calibrated(planned(*split, n), one, device)
        steps = [parts.step for parts in took[split]]
        middle = statistics.median(steps)
        off.append(max(expected / middle, middle / expected))
        span = f"{middle * 1e3:.0f} ({min(steps) * 1e3:.0f} to {max(steps) * 1e3:.0f})"
        row(f"{split[0]} + {split[1]}", f"{expected * 1e3:.0f}", span, f"{expected / middle:.2f}")
    return {"off": max(off)}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
