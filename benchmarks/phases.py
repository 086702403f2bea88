"""Predicted over measured seconds of each phase on the default sweep: benchmarks/phases.py.

The runs of a plan, two at once, each in a process that is forked from one that has imported the
training stack, as `launcher=local` starts them. Seconds are of the processor, so that other work on
the machine counts little: a run computes in one thread. Further words are settings of the sweep:
`python benchmarks/phases.py evaluation=thorough`. Evaluation's goal is its ratio to training, so
that the machine's speed does not decide. What a plan predicts of evaluation counts that before
training once a run; of those that share it one takes it, and the others read it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import math
import multiprocessing
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from types import ModuleType

from frame import Goal, benchmark

from isosweep.config.compose import config_of
from isosweep.config.hardware import PHASES
from isosweep.config.study import HealthConfig
from isosweep.files import write_json
from isosweep.plan.calibration import measured_times, planned_times
from isosweep.plan.cells import predicted
from isosweep.plan.study import Study, resolve
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun

GOALS = {
    "evaluation": Goal("evaluation over training, predicted off measured", "at most", 1.5),
    "phase": Goal("any phase but start, over training, off measured", "at most", 2.0),
}
QUICK = {"settings": ["budget=[1e10,2e10,4e10]", "grid.seeds=[0]"]}


class ProcessorTime(ModuleType):
    """`time`, in which clocks of durations are the processor's."""

    perf_counter = staticmethod(time.process_time)
    monotonic = staticmethod(time.process_time)
    time = staticmethod(time.time)


def work(job: tuple[str, tuple[float, ...]]) -> str | None:
    """Train a run up to its last milestone."""
    directory, milestones = job
    return train_unsubmitted(TrainRun(directory, milestones, "flops", HealthConfig()))


def train(study: Study, paths: SweepPaths) -> None:
    """All runs of the study, longest first, two at once."""
    from isosweep.training import assembly, attempt, ledger, loop

    clock = ProcessorTime("time")
    for module in (attempt, ledger, loop):
        module.time = clock  # type: ignore[attr-defined]
    assert assembly
    jobs = []
    for run in sorted(study.plan.runs, key=lambda run: -predicted(run.seconds)):
        files = paths.run(run.run_id)
        files.root.mkdir(parents=True)
        spec = study.specs[run.run_id].to_json()
        write_json(files.spec, {"version": 1, "run_id": run.run_id, "spec": spec})
        jobs.append((str(files.root), run.milestones))
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        for done, ended in enumerate(pool.imap_unordered(work, jobs, chunksize=1), 1):
            print(f"{done} of {len(jobs)} runs: {ended}", flush=True)


def figures(study: Study, paths: SweepPaths) -> dict[str, float]:
    """Print every phase's seconds; what the goals are of."""
    (table,) = study.candidates
    planned = planned_times(table, study.plan)
    seconds = [
        (planned[run_id]["seconds"], measured_times(paths.run(run_id), study.config.devices_taken))
        for run_id in planned
    ]
    print("of one batch, one evaluation and one start, all runs together:")
    print(f"{'phase':12} {'predicted':>10} {'measured':>10}  predicted / measured")
    ratios = {}
    for phase in PHASES:
        before, measured = (
            math.fsum(each[phase] for each in side) for side in zip(*seconds, strict=True)
        )
        ratios[phase] = before / measured
        print(f"{phase:12} {before:9.2f}s {measured:9.2f}s  {ratios[phase]:.2f}")
    runs = study.plan.runs
    records = [read_records(paths.run(run.run_id).records).records for run in runs]
    whole = {
        "evaluation": (
            math.fsum(run.evaluation_seconds for run in runs),
            math.fsum(record.seconds for each in records for record in each),
        ),
        "all but it": (
            math.fsum(predicted(run.seconds) - run.evaluation_seconds for run in runs),
            math.fsum(
                each[-1].compute.device_seconds
                + each[-1].compute.startup_seconds
                + each[-1].compute.checkpoint_seconds
                for each in records
            ),
        ),
    }
    print("the plan's totals, by what it expects of lengths, steps and records:")
    for name, (before, measured) in whole.items():
        print(f"{name:12} {before:9.1f}s {measured:9.1f}s  {before / measured:.2f}")
    share, rest = (planned / measured for planned, measured in whole.values())
    others = [ratios[phase] / ratios["training"] for phase in PHASES if phase != "start"]
    return {
        "evaluation": max(share / rest, rest / share),
        "phase": max(max(ratio, 1 / ratio) for ratio in others),
    }


def measure(options: Namespace) -> dict[str, float]:
    """Train the sweep; the figures of what was predicted of it."""
    with tempfile.TemporaryDirectory() as directory:
        study = resolve(config_of([f"sweeps_dir={directory}", *options.settings]))
        paths = SweepPaths(Path(directory) / "sweep", Path(directory) / "runs")
        train(study, paths)
        return figures(study, paths)


if __name__ == "__main__":
    settings = {"nargs": "*", "help": "settings of the sweep"}
    benchmark(measure, GOALS, QUICK, {"settings": settings})
