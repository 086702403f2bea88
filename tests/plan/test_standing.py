"""How far a run is: one answer, and all who ask for it show that one."""

import ast
import io
import os
import socket
import time
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from isosweep.compute import Compute
from isosweep.modes.display import show_status
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import Standing, run_standing, standing
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.state import RunState, RunStatus, write_state
from isosweep.tracking.points import MLFLOW_STATUS
from tests.conftest import make_config, plan_of
from tests.runs import dead_pid

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def the_plan() -> Plan:
    return plan_of(make_config("budget=[1e11,2e11]", "grid.num_generations=[2,4]"))


def long_runs() -> list[PlannedRun]:
    return [run for run in the_plan().runs if run.milestones[-1] == 2e11]


def state_of(status: RunStatus, flops: float, *, pid: int | None = None) -> RunState:
    """A state after one generation per 1e9 FLOPs; one that diverged did so by `collapse`."""
    generations = round(flops / 1e9)
    return RunState(
        status=status,
        attempt=1,
        host=socket.gethostname(),
        pid=pid or os.getpid(),
        job_id=None,
        step=generations,
        compute=Compute(generations=generations, training_flops=flops),
        reward=None,
        reason=None,
        updated=time.time(),
        diverged_by="collapse" if status == "diverged" else None,
    )


# Status, FLOPs spent of 2e11, rules that end runs: where the run is.
TABLE: list[tuple[RunStatus, float, list[str], Standing]] = [
    ("running", 1e11, ["collapse"], Standing.RUNNING),
    # It has yet to say that it is done.
    ("running", 2e11, ["collapse"], Standing.RUNNING),
    ("finished", 2e11, ["collapse"], Standing.DONE),
    ("finished", 1e11, ["collapse"], Standing.TO_EXTEND),
    ("diverged", 1e11, ["non_finite", "collapse"], Standing.DIVERGED),
    ("diverged", 1e11, ["non_finite"], Standing.TO_EXTEND),
    ("diverged", 1e11, [], Standing.TO_EXTEND),
    # It had come far enough before it diverged.
    ("diverged", 2e11, [], Standing.DIVERGED),
    ("interrupted", 2e11, ["collapse"], Standing.INTERRUPTED),
    ("failed", 0.0, ["collapse"], Standing.FAILED),
    ("cancelled", 1e11, ["collapse"], Standing.CANCELLED),
]


@pytest.mark.parametrize(("status", "flops", "stop", "expected"), TABLE)
def test_where_a_run_is_follows_from_its_state_and_every_view_shows_that(
    status: RunStatus, flops: float, stop: list[str], expected: Standing, tmp_path: Path
) -> None:
    run, state = long_runs()[0], state_of(status, flops)
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    paths.run(run.run_id).root.mkdir(parents=True)
    write_state(paths.run(run.run_id), state)
    assert run_standing(run, state, "flops", stop) is expected
    assert standing(the_plan(), paths.run, stop).runs[run.run_id] is expected
    text = io.StringIO()
    show_status(the_plan(), paths, stop, Console(file=text, width=200))
    line = next(line for line in text.getvalue().splitlines() if f"{flops:.3g}/2e+11" in line)
    assert f" {expected} " in line


def test_a_submitted_run_is_queued_until_it_runs_or_has_ended() -> None:
    run = long_runs()[0]
    assert run_standing(run, None, "flops", []) is Standing.NOT_BEGUN
    assert run_standing(run, None, "flops", [], queued=True) is Standing.QUEUED
    for status, flops, stop, unqueued in TABLE:
        stays = unqueued.ended or unqueued is Standing.RUNNING
        queued = run_standing(run, state_of(status, flops), "flops", stop, queued=True)
        assert queued is (unqueued if stays else Standing.QUEUED)


def test_a_run_whose_process_is_gone_is_interrupted() -> None:
    gone = state_of("running", 1e11, pid=dead_pid())
    assert run_standing(long_runs()[0], gone, "flops", []) is Standing.INTERRUPTED


def test_every_standing_has_a_word_in_mlflow() -> None:
    assert MLFLOW_STATUS.keys() == set(Standing)


def test_only_the_workers_own_code_reads_the_status_behind_the_standing() -> None:
    """Who compares a state's status derives a standing of their own."""
    # What decides the standing, what marks a run from outside, and what retries it. Training
    # writes the status.
    allowed = {"plan/standing.py", "store/state.py", "launchers/queue.py"}
    deriving = set()
    for folder in ("isosweep", "analysis", "launchers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                status = isinstance(node, ast.Attribute) and node.attr in ("status", "diverged_by")
                if status and ast.unparse(node).startswith(("state.", "self.status")):
                    deriving.add(str(path.relative_to(ROOT)).removeprefix("isosweep/"))
    # MLflow stores which rule ended a run beside its standing.
    readers = {name for name in deriving - allowed if not name.startswith("training/")}
    assert readers == {"tracking/mlflow.py"}


def test_a_plan_counts_its_runs_by_standing_and_what_is_left_to_spend(tmp_path: Path) -> None:
    untouched, failed, half, full, collapsed = long_runs()[:5]

    def paths(run_id: str) -> RunPaths:
        return RunPaths(tmp_path / run_id)

    on_disk: tuple[tuple[PlannedRun, RunState], ...] = (
        (failed, state_of("failed", 0.0)),
        (half, state_of("finished", 1e11)),
        (full, state_of("finished", 2e11)),
        (collapsed, state_of("diverged", 5e10)),
    )
    for run, state in on_disk:
        paths(run.run_id).root.mkdir()
        write_state(paths(run.run_id), state)
    now = standing(the_plan(), paths, ["collapse"])
    assert now.runs[untouched.run_id] is Standing.NOT_BEGUN
    assert now.runs[failed.run_id] is Standing.FAILED
    assert now.runs[half.run_id] is Standing.TO_EXTEND
    assert now.runs[full.run_id] is Standing.DONE
    assert now.runs[collapsed.run_id] is Standing.DIVERGED
    total = sum(run.milestones[-1] for run in the_plan().runs)
    # Nothing is spent any more on what has diverged.
    assert now.left == pytest.approx(1 - 5e11 / total)
    counts = f"{len(the_plan().runs) - 4} not begun, 1 to extend, 1 failed, 1 diverged, 1 done"
    assert now.described().startswith(f"runs: {counts}; ")
    # Where its rule no longer ends runs it is to be extended.
    again = standing(the_plan(), paths, ["non_finite"])
    extended = {run_id for run_id, s in again.runs.items() if s is Standing.TO_EXTEND}
    assert extended == {half.run_id, collapsed.run_id}
    assert again.left == pytest.approx(1 - 3.5e11 / total)
    assert "diverged" not in again.described()
