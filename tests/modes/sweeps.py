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
    read_metrics,
)
from isosweep.store.state import RunState, read_state
from isosweep.store.submissions import SubmissionState, newest_submission
from tests.runs import reproducible, wait_for

QUIET = ("tracking=none",)


def runs(cwd: Path) -> list[RunPaths]:
    return [RunPaths(path) for path in sorted((cwd / "sweeps" / "runs").iterdir())]


def state_of(run: RunPaths) -> RunState:
    """What the run's newest attempt said last; there is one."""
    state = read_state(run)
    assert state is not None
    return state


def newest(run: RunPaths) -> SubmissionState:
    """The run's newest submission; there is one."""
    state = newest_submission(run)
    assert state is not None
    return state


def outcome(run: RunPaths) -> str | None:
    """What the run's newest submission ended with; None where it goes on."""
    end = newest(run).end
    return end.outcome if end else None


def wait_until_some_run_trains(cwd: Path) -> RunPaths:
    begun: list[RunPaths] = []

    def training() -> bool:
        if (cwd / "sweeps" / "runs").exists():
            begun[:] = [r for r in runs(cwd) if len(read_metrics(r.metrics, r.records)) > 3]
        return bool(begun)

    wait_for(training)
    return begun[0]


def assert_same_records(cwd: Path, reference: Path) -> None:
    assert [run.run_id for run in runs(cwd)] == [run.run_id for run in runs(reference)]
    for run, other in zip(runs(cwd), runs(reference), strict=True):
        assert reproducible(run) == reproducible(other)


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
