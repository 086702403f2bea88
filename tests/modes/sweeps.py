"""What tests of whole sweeps share."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.store.paths import RunPaths
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_record,
)

QUIET = ("tracking=none",)


def recorded(
    run: RunPaths, taken: Iterable[tuple[Compute, tuple[int, ...]]], *, seconds: float = 0.1
) -> None:
    """Records of a run's first attempt: the compute behind each, and its successes of 2 samples;
    `seconds`: of each evaluation."""
    run.records.parent.mkdir(parents=True, exist_ok=True)
    append_attempt(run.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
    for spent, successes in taken:
        record = Record(
            step=spent.generations,
            compute=spent,
            successes=successes,
            samples_per_problem=2,
            completion_tokens=200,
            unix_time=1.0,
            seconds=seconds,
        )
        append_record(run.records, 1, record)


def write_records(tmp_path: Path) -> None:
    """Three records for every run of the sweep in `tmp_path`: enough to analyse."""
    (plan_file,) = tmp_path.glob("sweeps/*/plan.json")
    plan: dict[str, Any] = json.loads(plan_file.read_text())
    for run in plan["runs"]:
        last = run["num_steps"]
        steps = [
            Compute(
                rollouts=step * 8,
                prompt_tokens=step * 50,
                completion_tokens=step * 50,
                training_flops=step * 1e7,
                device_seconds=3600 * run["milestones"][-1] * step / last,
                generations=step,
            )
            for step in (0, last // 2, last)
        ]
        files = RunPaths(tmp_path / "sweeps" / "runs" / run["run_id"])
        recorded(files, [(spent, (1, 2) * 16) for spent in steps])
