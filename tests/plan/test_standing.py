"""How far a run is: one answer, and all who ask for it show that one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing, standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Process, Status, claim, create_attempt, newest
from isosweep.store.checkpoints import complete, keep_weights
from isosweep.store.paths import RunPaths
from tests.conftest import make_config, plan_of
from tests.runs import dead_pid


@cache
def the_plan() -> Plan:
    return plan_of(make_config("budget=[1e11,2e11]", "grid.num_generations=[2,4]"))


def long_runs() -> list[PlannedRun]:
    return [run for run in the_plan().runs if run.milestones[-1] == 2e11]


# What the newest attempt says, FLOPs spent of 2e11, rules that end runs: where the run is.
TABLE: list[tuple[Status, float, list[str], Standing]] = [
    (Status.QUEUED, 0.0, [], Standing.QUEUED),
    (Status.RUNNING, 1e11, ["collapse"], Standing.RUNNING),
    # It has yet to say that it is done.
    (Status.RUNNING, 2e11, ["collapse"], Standing.RUNNING),
    (Status.FINISHED, 2e11, ["collapse"], Standing.DONE),
    (Status.FINISHED, 1e11, ["collapse"], Standing.TO_EXTEND),
    (Status.DIVERGED, 1e11, ["non_finite", "collapse"], Standing.DIVERGED),
    (Status.DIVERGED, 1e11, ["non_finite"], Standing.TO_EXTEND),
    (Status.DIVERGED, 1e11, [], Standing.TO_EXTEND),
    # It had come far enough before it diverged.
    (Status.DIVERGED, 2e11, [], Standing.DIVERGED),
    (Status.INTERRUPTED, 2e11, ["collapse"], Standing.INTERRUPTED),
    (Status.LOST, 1e11, ["collapse"], Standing.INTERRUPTED),
    (Status.FAILED, 0.0, ["collapse"], Standing.FAILED),
    (Status.STUCK, 1e11, ["collapse"], Standing.FAILED),
    (Status.REFUSED, 0.0, ["collapse"], Standing.FAILED),
    (Status.CANCELLED, 1e11, ["collapse"], Standing.CANCELLED),
]


def attempted(paths: RunPaths, status: Status, flops: float) -> Attempt:
    """An attempt of this process after one generation per 1e9 FLOPs; one that diverged did so by
    `collapse`."""
    generations = round(flops / 1e9)
    compute = Compute(generations=generations, training_flops=flops)
    own = claim(paths)
    attempt = replace(
        own,
        status=status,
        step=generations,
        compute=compute,
        finished=compute if status is Status.FINISHED else own.finished,
        diverged_by="collapse" if status is Status.DIVERGED else None,
    )
    attempt.write()
    return attempt


def standing_of(paths: RunPaths, stop: Sequence[str] = ()) -> Standing:
    return run_standing(long_runs()[0], newest(paths), "flops", stop)


@pytest.mark.parametrize(("status", "flops", "stop", "expected"), TABLE)
def test_where_a_run_is_follows_from_its_newest_attempt(
    status: Status, flops: float, stop: list[str], expected: Standing, tmp_path: Path
) -> None:
    run = long_runs()[0]
    paths = RunPaths(tmp_path / run.run_id)
    assert standing_of(paths) is Standing.NOT_BEGUN
    attempted(paths, status, flops)
    assert standing_of(paths, stop) is expected
    everything = standing(the_plan(), lambda run_id: RunPaths(tmp_path / run_id), stop)
    assert everything.runs[run.run_id] is expected


def test_a_run_that_finished_stays_done_whatever_comes_of_a_longer_one(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    attempted(run, Status.FINISHED, 2e11)
    waits = create_attempt(run, "slurm", "a-sweep", {}, "a-batch")
    assert waits is not None
    assert standing_of(run) is Standing.DONE
    waits.end(Status.FAILED, "why")
    assert standing_of(run) is Standing.DONE


def test_a_request_to_cancel_counts_from_when_the_job_is_gone(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    attempt = attempted(run, Status.RUNNING, 1e11)
    attempt.request_cancel("ada")
    assert standing_of(run) is Standing.RUNNING
    replace(attempt, status=Status.INTERRUPTED).write()
    assert standing_of(run) is Standing.CANCELLED


def test_a_local_run_has_ended_where_its_process_is_seen_to_have(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    attempt = attempted(run, Status.RUNNING, 1e11)
    elsewhere = replace(attempt, worker=Process(host="another", pid=1, start=None))
    gone = replace(attempt, worker=Process.of(dead_pid()))
    assert attempt.worker is not None
    for each, expected in ((elsewhere, Standing.RUNNING), (gone, Standing.INTERRUPTED)):
        each.write()
        assert standing_of(run) is expected


def test_a_plan_counts_its_runs_by_standing_and_what_is_left_to_spend(tmp_path: Path) -> None:
    untouched, failed, half, full, collapsed = long_runs()[:5]

    def paths(run_id: str) -> RunPaths:
        return RunPaths(tmp_path / run_id)

    on_disk = (
        (failed, Status.FAILED, 0.0),
        (half, Status.FINISHED, 1e11),
        (full, Status.FINISHED, 2e11),
        (collapsed, Status.DIVERGED, 5e10),
    )
    for run, status, flops in on_disk:
        attempted(paths(run.run_id), status, flops)
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
