"""A sweep directory as large as they come, for benchmarks.

Its plan is a real one. Of its runs, from the first: `done` are, `failed` failed, `live` train (as
processes of whoever wrote it), and the others have not begun. Each that began has what the workers
and the queue write: attempt, records, metrics, and the marker of a checkpoint.
"""

import json
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.config.compose import config_of
from isosweep.modes.sweeps import store_plan, sweep_paths
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import Study, resolve
from isosweep.store.attempts import Attempt, Process, Status
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths, SweepPaths
from isosweep.store.records import AttemptStart, Record

RECORDS = 12
POINTS = 20


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many runs there are, and how many of each kind."""

    runs: int = 10_000
    done: int = 5_000
    failed: int = 20
    live: int = 2_000


def write_directory(root: Path, sizes: Sizes) -> tuple[Study, SweepPaths]:
    """Write the sweep into `root`, which is its `sweeps_dir`; what was planned, and where it is."""
    study = resolve(_config(root, sizes.runs))
    paths = sweep_paths(study)
    store_plan(study, paths)
    kinds: tuple[tuple[Status, int], ...] = (
        (Status.FINISHED, sizes.done),
        (Status.FAILED, sizes.failed),
        (Status.RUNNING, sizes.live),
    )
    runs = iter(study.plan.runs)
    for status, count in kinds:
        for run in islice(runs, count):
            _write_run(run, paths, study, status)
    return study, paths


def _config(root: Path, runs: int) -> Any:
    seeds = -(-runs // 20)
    overrides = [
        *("budget=[1e12,2e12,4e12]", "grid.num_generations=[2,4,8,16,32]", "grid.tolerance=0.2"),
        *("grid.problems_per_batch=[4,8,16,32]", f"grid.seeds={list(range(seeds))}"),
        *("grid.min_steps=1", f"sweeps_dir={root}"),
    ]
    return config_of(overrides)


def _write_run(run: PlannedRun, paths: SweepPaths, study: Study, status: Status) -> None:
    files, this, now = paths.run(run.run_id), Process.this(), time.time()
    share = 1.0 if status is Status.FINISHED else 0.5
    spent = _spent(run, share)
    files.attempts.mkdir(parents=True, exist_ok=True)
    Attempt(
        run=files,
        number=1,
        status=status,
        launcher="local",
        sweep=str(paths.root),
        job=_job(run, study),
        by=this,
        batch="0-00000000",
        worker=this,
        job_id=str(this.pid),
        step=spent.generations,
        compute=spent,
        finished=spent if status is Status.FINISHED else Compute(),
        reward=0.5,
        reason="RuntimeError: planted" if status is Status.FAILED else "",
        updated=now,
        progressed=now - 2,
        activity="training",
    ).write(sync=False)
    _write(files.spec, {"version": 1, "run_id": run.run_id, "spec": {}})
    _write_logs(files, run, share)


def _job(run: PlannedRun, study: Study) -> dict[str, Any]:
    health, saving = study.config.health.model_dump(), study.config.checkpoint.model_dump()
    unit = study.plan.budget_unit
    return {"milestones": run.milestones, "unit": unit, "health": health, "saving": saving}


def _write_logs(files: RunPaths, run: PlannedRun, share: float) -> None:
    start = {
        "kind": "attempt",
        "version": 1,
        **asdict(AttemptStart(attempt=1, parent=None, resumed_step=0)),
    }
    records = [
        Record(
            step=round(run.num_steps * share * k / RECORDS),
            compute=_spent(run, share * k / RECORDS),
            successes=tuple((k + i) % 5 for i in range(64)),
            samples_per_problem=4,
            completion_tokens=9.0,
            unix_time=1e9 + k,
        )
        for k in range(RECORDS + 1)
    ]
    head = {"kind": "record", "version": 1, "attempt": 1}
    lines = [start, *({**head, **record.to_json()} for record in records)]
    _write(files.records / "1.jsonl", *lines)
    points = [{"attempt": 1, "step": k, "loss": 0.1} for k in range(POINTS)]
    _write(files.metrics / "1.jsonl", start, *points)
    marker = {"version": 2, "files": {"model.safetensors": 10**6}, "progress": {}}
    _write(files.attempt_checkpoints(1) / "checkpoint-9" / CHECKPOINT_FILES, marker)
    logs = files.attempt_logs(1)
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "run.err").write_text("planted\n" * 20)


def _spent(run: PlannedRun, share: float) -> Compute:
    flops, generations = run.milestones[-1] * share, round(run.num_steps * share)
    return Compute(generations=generations, rollouts=generations, training_flops=flops)


def _write(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
