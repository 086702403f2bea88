"""Sweeps under faults of all kinds, at random from a seed: `python benchmarks/chaos.py`.

Two sweeps that share runs are followed by drivers that are killed, interrupted, doubled and taken
over, while their workers are killed, stopped and told to leave; at the end both are resumed. Their
records are compared with those of the same sweeps that nothing happened to.

`--launcher local` uses processes of this machine, `--launcher slurm` a Slurm that is started for it
(root, and Slurm's daemons, are needed).
"""

import contextlib
import os
import random
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from chaos_faults import FAULTS, LOCAL_FAULTS, slurm_faults
from chaos_world import World, at_work
from frame import Goal, benchmark, table

from isosweep.files import read_json
from isosweep.store.attempts import Process, Status, highest, newest
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records

if TYPE_CHECKING:
    from tests.slurm.cluster import SlurmCluster

GOALS = {
    "missing": Goal("faults asked for that found nothing left to hit", "at most", 0.0),
    "unfinished": Goal("runs unfinished", "at most", 0.0),
    "changed": Goal("runs whose records differ", "at most", 0.0),
    "doubled": Goal("records taken twice by one attempt", "at most", 0.0),
    "together": Goal("seconds that two workers of a run were at work", "at most", 15.0),
}
QUICK = {"faults": 40, "seeds": 2}
ROOT = Path(__file__).resolve().parent.parent
# Lets steps take longer, by ISOSWEEP_TEST_STEP_S, so that faults hit runs in their midst.
SLOWLY = ROOT / "tests" / "slowly"
STEP_S = 0.25
# Mean seconds between two faults.
PACE_S = 1.5
# Many times what a resumed sweep of a few tiny runs takes.
PATIENCE_S = 900.0


def disturb(world: World, faults: int) -> None:
    """Drive both sweeps while `faults` faults happen to them."""
    known = FAULTS | (LOCAL_FAULTS if world.cluster is None else slurm_faults())
    weights = [weight for weight, _ in known.values()]
    due = time.monotonic() + 5.0
    deadline = time.monotonic() + faults * PACE_S * 6 + 120
    while sum(world.counts.values()) < faults and time.monotonic() < deadline:
        _tend(world)
        if time.monotonic() > due and world.workers():
            name = world.chance.choices(list(known), weights)[0]
            if known[name][1](world):
                world.counts[name] += 1
                print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
                due = time.monotonic() + world.chance.expovariate(1 / PACE_S)
        time.sleep(0.1)


def _tend(world: World) -> None:
    """Let stopped processes go on, keep a driver at each sweep, and watch what the runs do."""
    now = time.monotonic()
    for item in [item for item in world.wake if item[0] < now]:
        world.wake.remove(item)
        item[1]()
    for sweep in world.sweeps:
        if not world.living(sweep):
            world.drive(sweep)
    _watch(world)


def _watch(world: World) -> None:
    """How long runs that were hit took to come forward, and whether two workers have one run."""
    for item in list(world.hit):
        name, run, since = item
        attempt = newest(run)
        if attempt and (attempt.progressed > since + 0.5 or attempt.status is Status.FINISHED):
            world.waits[name].append(max(0.0, attempt.progressed - since))
            world.hit.remove(item)
    for run in world.runs:
        workers = [p for p in _processes(run) if at_work(p)]
        key = f"{run.run_id}"
        began = _TOGETHER.setdefault(key, time.monotonic())
        if len(workers) < 2:
            del _TOGETHER[key]
        else:
            world.together = max(world.together, time.monotonic() - began)


_TOGETHER: dict[str, float] = {}


def _processes(run: RunPaths) -> Iterator[Process]:
    """The processes of all attempts of a run."""
    for path in sorted(run.attempts.glob("[0-9]*.json")):
        with contextlib.suppress(ValueError, KeyError):
            document = read_json(path)
            if document is not None and document.get("worker"):
                yield Process(**document["worker"])


def finish(world: World) -> None:
    """Let go on what is stopped, end the drivers, and resume both sweeps to their ends, twice."""
    for _, go_on in world.wake:
        go_on()
    world.wake.clear()
    for sweep in world.sweeps:
        for driver in world.living(sweep):
            driver.kill()
            driver.wait()
    # A job that somebody cancelled just before is no more tried again by who learns of it then.
    for _ in range(2):
        for sweep in world.sweeps:
            world.drive(sweep)
        deadline = time.monotonic() + PATIENCE_S
        for sweep in world.sweeps:
            while world.living(sweep) and time.monotonic() < deadline:
                _watch(world)
                time.sleep(0.2)


def compare(world: World, reference: World) -> dict[str, float]:
    """Print what was lost, changed or doubled; the figures of the goals."""
    unfinished, changed, doubled, torn = [], [], 0, 0
    for run in reference.runs:
        mine = RunPaths(world.directory / "sweeps" / "runs" / run.run_id)
        read, known = read_records(mine.records), read_records(run.records)
        attempt = newest(mine)
        if attempt is None or attempt.status is not Status.FINISHED:
            unfinished.append(run.run_id)
        if [r.reproducible() for r in read.records] != [r.reproducible() for r in known.records]:
            changed.append(run.run_id)
        doubled += sum(" again in attempt " in problem for problem in read.problems)
        torn += sum(" again in attempt " not in problem for problem in read.problems)
    for what, names in (("unfinished", unfinished), ("changed", changed)):
        if names:
            print(f"{what}: {', '.join(names)}")
    attempts = [highest(run) for run in world.runs]
    print(
        f"{len(reference.runs)} runs, {sum(attempts)} attempts ({max(attempts)} of one run at "
        f"most), {torn} lines torn by kills"
    )
    return {
        "unfinished": float(len(unfinished)),
        "changed": float(len(changed)),
        "doubled": float(doubled),
        "together": world.together,
    }


def show(world: World) -> None:
    """Print what happened, how often, and how long runs that were hit took to come forward."""
    row = table("fault", "times", "until the run came forward again: median, longest")
    for name, count in sorted(world.counts.items()):
        waits = world.waits.get(name, [])
        row(name, count, f"{median(waits):.1f} s, {max(waits):.1f} s" if waits else "")


@contextlib.contextmanager
def cluster_of(launcher: str) -> Iterator["SlurmCluster | None"]:
    """A Slurm of its own, or none."""
    if launcher != "slurm":
        yield None
        return
    from tests.slurm.cluster import SlurmCluster

    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as directory,
        SlurmCluster(Path(directory)) as cluster,
    ):
        os.environ.update(cluster.environment)
        yield cluster


def make_world(directory: Path, options: Namespace, *, disturbed: bool) -> World:
    """A directory for both sweeps; `disturbed`: it is the one that faults happen to."""
    directory.mkdir()
    environment = {**os.environ, "ISOSWEEP_CHAOS": str(directory), "OMP_NUM_THREADS": "1"}
    launcher: tuple[str, ...] = ("launcher=local",)
    if disturbed:
        environment["ISOSWEEP_TEST_STEP_S"] = str(STEP_S)
        environment["PYTHONPATH"] = os.pathsep.join([str(SLOWLY), os.environ.get("PYTHONPATH", "")])
        if options.launcher == "slurm":
            memory = ("launcher.slurm.mem_gb=1", "launcher.slurm.cpus_per_task=1")
            launcher = ("launcher=slurm", *memory)
    return World(
        directory=directory,
        chance=random.Random(options.seed),
        launcher=launcher,
        seeds=options.seeds,
        environment=environment,
    )


OPTIONS = {
    "--launcher": {"choices": ("local", "slurm"), "default": "local"},
    "--faults": (120, "how many happen"),
    "--seeds": (4, "of both sweeps: 6 runs each"),
    "--seed": (0, "of the faults"),
    "--keep": {"type": Path, "help": "a new directory for the sweeps, not removed"},
}


def measure(options: Namespace) -> dict[str, float]:
    """Disturb two sweeps; the figures of what came of them."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(cluster_of(options.launcher))
        root = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root.mkdir(exist_ok=True)
        reference = make_world(root / "reference", options, disturbed=False)
        for sweep in reference.sweeps:
            reference.drive(sweep)
            (driver,) = reference.drivers[sweep]
            if driver.wait() != 0:
                sys.exit((reference.directory / f"{sweep}.log").read_text())
        world = make_world(root / "disturbed", options, disturbed=True)
        world.cluster = cluster
        began = time.monotonic()
        disturb(world, options.faults)
        disturbed = time.monotonic() - began
        finish(world)
        show(world)
        print(f"{disturbed:.0f} s of faults, {time.monotonic() - began - disturbed:.0f} s after")
        missing = float(options.faults - sum(world.counts.values()))
        return {"missing": missing} | compare(world, reference)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
