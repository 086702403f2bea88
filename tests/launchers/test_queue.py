"""The queue: how many runs live at once, retries, and runs that others own."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.config.health import HealthConfig
from isosweep.launchers.queue import RunQueue
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import Standing
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunStatus, claim_attempt, mark, read_state, write_state
from tests.conftest import make_config, plan_of


@cache
def the_plan() -> Plan:
    return plan_of(make_config("budget=1e10", "grid.seeds=[0]", "grid.tolerance=0.1"))


Worker = Callable[[RunPaths], None]


def report(run: RunPaths, status: RunStatus, flops: float, reason: str | None = None) -> None:
    """What a worker leaves behind at its end."""
    attempt = claim_attempt(run, None)
    state = RunState(
        status=status,
        attempt=attempt.number,
        host=socket.gethostname(),
        pid=os.getpid(),
        job_id=None,
        step=100,
        compute=Compute(generations=100, training_flops=flops),
        reward=None,
        reason=reason,
        updated=time.time(),
        diverged_by="collapse" if status == "diverged" else None,
    )
    write_state(run, state)


def finishes(run: RunPaths) -> None:
    report(run, "finished", 1e10)


def fails(run: RunPaths) -> None:
    report(run, "failed", 0.0, "RuntimeError: broken")


def diverges(run: RunPaths) -> None:
    report(run, "diverged", 5e9, "collapse at step 100: reward 0")


def dies(run: RunPaths) -> None:
    report(run, "running", 5e9)


def never_begins(run: RunPaths) -> None:
    pass


class ScriptedLauncher:
    """Stands for the process boundary: `worker` runs when the queue looks at the job again."""

    detaches = False

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.submitted: list[str] = []
        self.alive: set[str] = set()
        self.most_alive = 0
        self.slots: list[int] = []

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> str:
        self.submitted.append(name)
        self.slots.append(slot)
        self.alive.add(job.run_dir)
        self.most_alive = max(self.most_alive, len(self.alive))
        return str(job.run_dir)

    def ended(self, handle: str) -> bool:
        if handle in self.alive:
            self.alive.remove(handle)
            self.worker(RunPaths(Path(handle)))
        return True

    def stop(self, handle: str) -> None:
        self.alive.discard(handle)


def make_queue(
    root: Path,
    worker: Worker,
    *,
    retries: int = 1,
    health: HealthConfig | None = None,
    runs: tuple[PlannedRun, ...] | None = None,
) -> RunQueue:
    runs = the_plan().runs if runs is None else runs
    for run in runs:
        (root / run.run_id).mkdir(exist_ok=True)
    return RunQueue(
        runs=runs,
        unit="flops",
        paths=lambda run_id: RunPaths(root / run_id),
        launcher=ScriptedLauncher(worker),
        max_parallel=3,
        max_retries=retries,
        health=health or HealthConfig(),
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.launchers.queue._POLL_S", 0.0)


def ignore() -> None:
    pass


def test_runs_start_longest_first_and_never_more_than_there_is_room(tmp_path: Path) -> None:
    # Here the runs of the most steps are the shortest.
    runs = tuple(replace(run, seconds=60 / run.num_steps) for run in the_plan().runs)
    queue = make_queue(tmp_path, finishes, runs=runs)
    queue.follow(ignore)
    launcher = queue.launcher
    assert isinstance(launcher, ScriptedLauncher)
    by_id = {run.run_id: run.seconds for run in runs}
    seconds = [by_id[name] for name in launcher.submitted]
    assert seconds == sorted(by_id.values(), reverse=True)
    assert launcher.most_alive == 3
    assert set(launcher.slots) == {0, 1, 2}
    assert not queue.failed


@pytest.mark.parametrize(
    ("worker", "reason"),
    [
        (fails, "RuntimeError: broken"),
        (dies, "died without a word"),
        (never_begins, "ended before it had begun"),
    ],
)
def test_a_run_is_retried_so_often_and_then_reported(
    worker: Worker, reason: str, tmp_path: Path
) -> None:
    queue = make_queue(tmp_path, worker, retries=2)
    queue.follow(ignore)
    launcher = queue.launcher
    assert isinstance(launcher, ScriptedLauncher)
    assert len(launcher.submitted) == 3 * len(the_plan().runs)
    assert queue.failed.keys() == {run.run_id for run in the_plan().runs}
    for message in queue.failed.values():
        assert reason in message
        assert "tried 3 times" in message


def test_a_worker_that_died_is_not_left_as_running(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, dies, retries=0)
    queue.follow(ignore)
    states = [read_state(RunPaths(tmp_path / run.run_id)) for run in the_plan().runs]
    assert {state.status for state in states if state is not None} == {"failed"}


def test_finished_runs_are_not_started_again(tmp_path: Path) -> None:
    make_queue(tmp_path, finishes).follow(ignore)
    again = make_queue(tmp_path, finishes)
    assert not again.busy


def test_a_diverged_run_is_a_result_and_not_started_again(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, diverges, retries=5)
    queue.follow(ignore)
    launcher = queue.launcher
    assert isinstance(launcher, ScriptedLauncher)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert not queue.failed
    assert not make_queue(tmp_path, diverges).busy
    lenient = make_queue(tmp_path, finishes, health=HealthConfig(stop=[]))
    assert lenient.busy
    lenient.follow(ignore)
    states = [read_state(RunPaths(tmp_path / run.run_id)) for run in the_plan().runs]
    assert {state.status for state in states if state is not None} == {"finished"}


def test_a_submitted_run_is_queued_until_it_reports(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, dies)
    assert {queue.standing(run) for run in the_plan().runs} == {Standing.NOT_BEGUN}
    queue.step()
    first, *_ = queue.active
    assert queue.standing(first) is Standing.QUEUED
    dies(RunPaths(tmp_path / first.run_id))  # This process is alive.
    assert queue.standing(first) is Standing.RUNNING


def test_a_cancelled_run_is_not_retried(tmp_path: Path) -> None:
    def cancelled(run: RunPaths) -> None:
        dies(run)
        mark(run, "cancelled", "mode=cancel")

    queue = make_queue(tmp_path, cancelled, retries=5)
    queue.follow(ignore)
    launcher = queue.launcher
    assert isinstance(launcher, ScriptedLauncher)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert set(queue.failed.values()) == {"cancelled"}


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path) -> None:
    owned: PlannedRun = the_plan().runs[0]
    queue = make_queue(tmp_path, finishes)
    elsewhere = RunPaths(tmp_path / owned.run_id)
    dies(elsewhere)  # This process is alive, and so is the run that it says it owns.
    looks = 0

    def other_process() -> None:
        nonlocal looks
        looks += 1
        if looks == 20:
            finishes(elsewhere)

    queue.follow(other_process)
    launcher = queue.launcher
    assert isinstance(launcher, ScriptedLauncher)
    assert owned.run_id not in launcher.submitted
    assert len(launcher.submitted) == len(the_plan().runs) - 1
    assert looks >= 20
