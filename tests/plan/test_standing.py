"""How far a run is: one answer, and all who ask for it show that one."""

import os
import socket
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing, standing
from isosweep.plan.tally import Standing
from isosweep.store.checkpoints import complete, keep_weights
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunStatus, RunView, claim_attempt, view_run
from isosweep.store.submissions import (
    Job,
    Outcome,
    Process,
    close,
    request_cancel,
    started,
    submit,
)
from isosweep.tracking.points import MLFLOW_STATUS
from tests.conftest import make_config, plan_of
from tests.runs import dead_pid


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


def write_state(run: RunPaths, state: RunState) -> None:
    claim_attempt(run).write(state)


@pytest.mark.parametrize(("status", "flops", "stop", "expected"), TABLE)
def test_where_a_run_is_follows_from_its_state(
    status: RunStatus, flops: float, stop: list[str], expected: Standing, tmp_path: Path
) -> None:
    run, state = long_runs()[0], state_of(status, flops)
    paths = RunPaths(tmp_path / run.run_id)
    write_state(paths, state)
    assert run_standing(run, view_run(paths), "flops", stop) is expected
    everything = standing(the_plan(), lambda run_id: RunPaths(tmp_path / run_id), stop)
    assert everything.runs[run.run_id] is expected


def submitted(run: RunPaths, *, gone: bool = False) -> None:
    """A submission whose job is this process, or one that has ended."""
    submission = submit(run, "local", {}, "a-sweep", "a-batch")
    assert submission is not None
    this = Process.this()
    process = replace(this, pid=dead_pid()) if gone else this
    started(submission, Job(job_id="1", process=process))


def test_a_submitted_run_is_queued_until_it_runs_or_has_ended(tmp_path: Path) -> None:
    run = long_runs()[0]
    new = RunPaths(tmp_path / "new")
    assert run_standing(run, view_run(new), "flops", []) is Standing.NOT_BEGUN
    submitted(new)
    assert run_standing(run, view_run(new), "flops", []) is Standing.QUEUED
    write_state(new, replace(state_of("running", 1e11), submission=1))
    assert run_standing(run, view_run(new), "flops", []) is Standing.RUNNING
    for number, (status, flops, stop, unsubmitted) in enumerate(TABLE):
        # Its newest attempt is of an earlier submission.
        paths = RunPaths(tmp_path / str(number))
        write_state(paths, state_of(status, flops))
        submitted(paths)
        seen = run_standing(run, view_run(paths), "flops", stop)
        assert seen is (unsubmitted if unsubmitted.ended else Standing.QUEUED)


@pytest.mark.parametrize(
    ("outcome", "state", "expected"),
    [
        ("failed", "failed", Standing.FAILED),
        ("refused", None, Standing.FAILED),
        ("stuck", "running", Standing.FAILED),
        ("cancelled", "running", Standing.CANCELLED),
        ("cancelled", None, Standing.CANCELLED),
        ("interrupted", "interrupted", Standing.INTERRUPTED),
        ("lost", None, Standing.INTERRUPTED),
        ("finished", "finished", Standing.DONE),
    ],
)
def test_how_a_submission_ended_says_where_its_run_is(
    outcome: Outcome, state: RunStatus | None, expected: Standing, tmp_path: Path
) -> None:
    run, paths = long_runs()[0], RunPaths(tmp_path / "run")
    submission = submit(paths, "local", {}, "a-sweep", "a-batch")
    assert submission is not None
    if state is not None:
        flops = 2e11 if state == "finished" else 1e11
        write_state(paths, replace(state_of(state, flops), submission=1))
    close(submission, outcome, "why")
    view = view_run(paths)
    assert run_standing(run, view, "flops", []) is expected
    assert view.reason == ("" if outcome == "finished" else "why")


def test_a_request_to_cancel_counts_from_when_the_job_is_gone(tmp_path: Path) -> None:
    run = long_runs()[0]
    for gone, expected in ((False, Standing.QUEUED), (True, Standing.CANCELLED)):
        paths = RunPaths(tmp_path / str(gone))
        submitted(paths, gone=gone)
        state = view_run(paths).submission
        assert state is not None
        request_cancel(state.submission, "ada")
        assert run_standing(run, view_run(paths), "flops", []) is expected


def test_a_run_without_a_submission_runs_unless_its_process_is_seen_to_have_ended() -> None:
    here = state_of("running", 1e11)
    elsewhere = replace(here, host="another-machine")
    gone = state_of("running", 1e11, pid=dead_pid())
    views = [RunView(state=state, submission=None) for state in (here, elsewhere, gone)]
    assert [view.occupied for view in views] == [True, True, False]
    assert [run_standing(long_runs()[0], view, "flops", []) for view in views] == [
        *(Standing.RUNNING, Standing.RUNNING, Standing.INTERRUPTED)
    ]


def test_every_standing_has_a_word_in_mlflow() -> None:
    assert MLFLOW_STATUS.keys() == set(Standing)


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
        write_state(paths(run.run_id), state)
        checkpoint = paths(run.run_id).attempt_checkpoints(1) / "checkpoint-1"
        checkpoint.mkdir(parents=True)
        complete(checkpoint)
    now = standing(the_plan(), paths, ["collapse"])
    assert now.runs[untouched.run_id] is Standing.NOT_BEGUN
    assert now.runs[failed.run_id] is Standing.FAILED
    assert now.runs[half.run_id] is Standing.TO_EXTEND
    assert now.runs[full.run_id] is Standing.DONE
    assert now.runs[collapsed.run_id] is Standing.DIVERGED
    total = sum(run.milestones[-1] for run in the_plan().runs)
    # Nothing is spent any more on what has diverged.
    assert now.left == pytest.approx(1 - 5e11 / total)
    assert list(now.runs.values()).count(Standing.NOT_BEGUN) == len(the_plan().runs) - 4
    # Where its rule no longer ends runs it is to be extended.
    again = standing(the_plan(), paths, ["non_finite"])
    extended = {run_id for run_id, s in again.runs.items() if s is Standing.TO_EXTEND}
    assert extended == {half.run_id, collapsed.run_id}
    assert again.left == pytest.approx(1 - 3.5e11 / total)
    # What nothing is left to go on from has to be spent again.
    keep_weights(paths(half.run_id).attempt_checkpoints(1) / "checkpoint-1")
    assert standing(the_plan(), paths, ["collapse"]).left == pytest.approx(1 - 4e11 / total)
