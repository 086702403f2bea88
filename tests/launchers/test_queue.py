"""The queue: how many runs live at once, retries, refusals, and runs that others own."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isosweep.config.study import HealthConfig
from isosweep.devices import Devices
from isosweep.launchers.launcher import Observed, Order, Refused
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.queue import RunQueue
from isosweep.plan.cells import predicted
from isosweep.store.attempts import LOADING, Attempt, Process, Status, create_attempt, read
from isosweep.store.paths import RunPaths
from tests.launchers.fake import (
    BUDGET,
    FakeLauncher,
    attempts,
    dies,
    diverges,
    ends,
    fails,
    finishes,
    follow,
    items_of,
    never_begins,
    one_run,
    only_first,
    queue_of,
    report,
    status_of,
    the_plan,
)
from tests.runs import dead_pid


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.launchers.queue._FIRST_PAUSE_S", 0.0)


def submitted_elsewhere(run: RunPaths, milestones: list[float], pid: int = 0) -> Attempt:
    """By another driver, which lives, unless `pid` is of a process that does not."""
    attempt = create_attempt(run, "ray", "another", {"milestones": milestones}, "a-batch")
    assert attempt is not None
    other = replace(attempt, by=Process.of(pid or os.getppid()))
    other.write()
    return other


def test_runs_start_longest_first_and_never_more_than_there_is_room(tmp_path: Path) -> None:
    # Here the runs of the most steps are the shortest.
    runs = tuple(replace(run, seconds=60 / run.num_steps) for run in the_plan().runs)
    launcher = FakeLauncher(finishes)
    queue = queue_of(items_of(tmp_path, runs), launcher)
    follow(queue)
    by_id = {run.run_id: predicted(run.seconds) for run in runs}
    seconds = [by_id[name] for name in launcher.submitted]
    assert seconds == sorted(by_id.values(), reverse=True)
    assert launcher.most_alive == 3
    assert not queue.failed


# What may happen to an attempt, with the status that it ends with, and whether the run has a try
# less; of a refusal, whether it passes.
ENDS = {
    "fails": (Status.FAILED, True),
    "dies": (Status.LOST, True),
    "never begins": (Status.LOST, True),
    "stays": (Status.INTERRUPTED, True),
    "comes forward": (Status.INTERRUPTED, False),
    # Its submission got no answer, and there is no job: it never was a try.
    "is not there": (Status.LOST, False),
}
REFUSALS = {"controller down": True, "unknown user": False}
EVENTS = st.lists(st.sampled_from([*ENDS, *REFUSALS, "diverges"]), max_size=6)


@dataclass
class Scripted(FakeLauncher):
    """Does to each run what its list of events says, and finishes it after the last one."""

    events: dict[str, list[str]] = field(default_factory=dict)
    began: set[Path] = field(default_factory=set)

    def _start(self, order: Order) -> Refused | None:
        left = self.events[order.run.run_id]
        if left and left[0] in REFUSALS:
            return Refused(reason=left[0], passing=REFUSALS[left.pop(0)])
        if left and left[0] == "is not there":
            left.pop(0)
            return None
        self.began.add(order.attempt.path)
        return super()._start(order)

    def _look(self, path: Path) -> Observed:
        # Only what was started has a job's id.
        return super()._look(path) if path in self.began else Observed(status="ended")

    def happens(self, order: Order) -> None:
        left = self.events[order.run.run_id]
        match event := left.pop(0) if left else "finishes":
            case "fails":
                fails(order)
            case "dies":
                dies(order)
            case "diverges":
                diverges(order)
            case "finishes":
                finishes(order)
            case "stays" | "comes forward":
                spent = order.attempt.compute.training_flops + (event != "stays")
                report(order.attempt, Status.INTERRUPTED, spent)


def told(events: list[str], retries: int) -> tuple[int, Status, str]:
    """How many attempts such a run has, what the last ends with, and why the run is given up."""
    number, tries, refusals = 1, 0, 0
    for event in events:
        if event == "diverges":
            return number, Status.DIVERGED, ""
        if event in REFUSALS:
            refusals += 1
            if refusals >= 3 and not REFUSALS[event]:
                return number, Status.REFUSED, f"refused: {event}"
            continue
        status, counts = ENDS[event]
        tries, refusals = tries + counts, 0
        if tries > retries:
            return number, status, f"tried {tries} times"
        number += 1
    return number, Status.FINISHED, ""


@settings(max_examples=25)
@given(st.tuples(EVENTS, EVENTS, EVENTS), st.integers(0, 2))
def test_a_run_is_tried_again_as_often_as_may_be_whatever_happens_to_others(
    happens: tuple[list[str], ...], retries: int
) -> None:
    with TemporaryDirectory() as directory:
        items = items_of(Path(directory), the_plan().runs[:3])
        asked = {
            item.run.run_id: told(own, retries) for item, own in zip(items, happens, strict=True)
        }
        events = {name: [*own] for name, own in zip(asked, happens, strict=True)}
        launcher = Scripted(worker=lambda order: launcher.happens(order), events=events)
        queue = RunQueue(items, launcher, max_parallel=2, max_retries=retries)
        follow(queue)
        assert attempts(Path(directory)) == {name: number for name, (number, *_) in asked.items()}
        assert [status_of(item.paths) for item in items] == [end for _, end, _ in asked.values()]
        given_up = {name: why for name, (_, _, why) in asked.items() if why}
        assert queue.failed.keys() == given_up.keys()
        assert all(why in queue.failed[name] for name, why in given_up.items())
        assert launcher.most_alive <= 2


def test_a_job_is_gone_only_when_it_is_not_found_twice(tmp_path: Path) -> None:
    launcher = FakeLauncher(never_begins, looks=10**9)
    queue = queue_of(only_first(tmp_path), launcher)
    queue.step()
    ((order, _),) = launcher.alive.values()
    launcher.alive.clear()
    queue.step()
    # Its worker had ended it between the question and the answer.
    finishes(order)
    queue.step()
    assert not queue.busy
    assert not queue.failed
    assert status_of(order.attempt.run) is Status.FINISHED


def test_a_diverged_run_is_a_result_and_not_started_again(tmp_path: Path) -> None:
    launcher = FakeLauncher(diverges)
    queue = queue_of(items_of(tmp_path), launcher, retries=5)
    follow(queue)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert not queue.failed
    assert not queue_of(items_of(tmp_path), FakeLauncher(finishes)).busy
    lenient = queue_of(items_of(tmp_path, health=HealthConfig(stop=[])), FakeLauncher(finishes))
    follow(lenient)
    assert {status_of(item.paths) for item in items_of(tmp_path)} == {Status.FINISHED}


def test_a_run_that_is_being_cancelled_when_a_queue_begins_is_trained_after_it(
    tmp_path: Path,
) -> None:
    run, launcher = one_run(tmp_path), FakeLauncher(finishes)
    attempt = submitted_elsewhere(run, [BUDGET])
    attempt.request_cancel("ada")
    queue = queue_of(only_first(tmp_path), launcher)
    queue.step()
    assert not launcher.submitted, "its job may live"
    attempt.end(Status.CANCELLED, "cancelled by ada")
    follow(queue)
    assert not queue.failed
    assert launcher.submitted == [run.run_id]


@pytest.mark.parametrize("known", [True, False], ids=["a job is found", "no job is found"])
def test_an_attempt_whose_submitter_died_is_looked_for(known: bool, tmp_path: Path) -> None:
    run = one_run(tmp_path)
    elsewhere = submitted_elsewhere(run, [BUDGET], dead_pid())
    launcher = FakeLauncher(finishes, gone=Observed(status="ended"))
    if known:
        order = Order(attempt=elsewhere, run=the_plan().runs[0])
        launcher.alive[elsewhere.path] = (order, 0)
    queue = queue_of(only_first(tmp_path), launcher, retries=0)
    follow(queue)
    assert not queue.failed
    assert launcher.submitted == ([] if known else [run.run_id])


def test_a_run_without_progress_is_ended_and_tried_again(tmp_path: Path) -> None:
    # As Slurm, which has cancelled the job, though scancel got no answer.
    cancelled = Observed(
        status="ended", outcome=Status.CANCELLED, reason="Slurm says CANCELLED", job_id="1"
    )
    launcher = FakeLauncher(finishes, looks=9, gone=cancelled, trouble="scancel timed out")
    said: list[str] = []
    queue = queue_of(only_first(tmp_path, stuck_after_s=60.0), launcher, notice=said.append)
    with mock.patch("time.monotonic") as clock:
        clock.return_value = 0.0
        queue.step()
        first = queue.attempts[0][1]
        # Its model loads for longer than a step may take.
        state = report(first, Status.RUNNING, 1.0, activity=LOADING)
        for clock.return_value in (1.0, 1000.0):
            queue.step()
        state = replace(state, activity="", progressed=state.progressed + 1)
        state.write()
        for clock.return_value in (1001.0, 1050.0):
            queue.step()
        assert launcher.stopped == []
        clock.return_value = 1062.0
        queue.step()
    assert launcher.stopped == [(first.run.run_id, True)]
    assert "no progress for 61 s (launcher.stuck_after=60 s)" in said[0]
    follow(queue)
    assert not queue.failed
    assert attempts(tmp_path)[first.run.run_id] == 2
    assert read(first.run, 1).status is Status.STUCK


def test_stopping_leaves_runs_of_others_alone(tmp_path: Path) -> None:
    items = items_of(tmp_path)
    elsewhere = submitted_elsewhere(items[0].paths, [BUDGET])
    launcher = FakeLauncher(ends(Status.INTERRUPTED, 0.5, "stopped"), looks=10**9)
    launcher.alive[elsewhere.path] = (
        Order(attempt=elsewhere, run=the_plan().runs[0]),
        0,
    )
    queue = queue_of(items, launcher)
    queue.step()
    own = {run.run_id for run in queue.active} - {items[0].run.run_id}
    # The other one takes a place as well.
    assert queue.stop() == 2
    assert {run_id for run_id, _ in launcher.stopped} == own
    launcher.looks = 1
    follow(queue)
    assert not queue.failed
    assert len(launcher.submitted) == 2


def test_places_on_gpus_of_runs_from_elsewhere_are_taken(tmp_path: Path) -> None:
    devices = Devices(names=("4", "5", "6", "7"), source="")
    queue = RunQueue([], LocalLauncher(devices=devices, per_run=2), max_parallel=4, max_retries=0)
    first, second, third = items_of(tmp_path)
    for item, taken in ((first, ("6", "7")), (second, ("7",)), (third, ("0",))):
        other = create_attempt(item.paths, "local", "another", {}, "a-batch", devices=taken)
        assert other is not None
        replace(other, worker=Process.this()).write()
        queue.add([item])
    # The second run of the same GPUs; and of the third none is here.
    assert [followed.place for followed in queue._active] == [1, 3, None]
    assert queue._free_places() == [0, 2]


def test_a_refusal_that_passes_is_told_once_and_tried_again(tmp_path: Path) -> None:
    down = Refused(reason="Unable to contact slurm controller", passing=True)
    said: list[str] = []
    launcher = FakeLauncher(finishes, refuse=[down] * 9)
    queue = queue_of(items_of(tmp_path), launcher, notice=said.append)
    follow(queue)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert set(attempts(tmp_path).values()) == {1}
    assert len(said) == 2
    assert "did not take 3 runs: Unable to contact slurm controller" in said[0]
    assert "takes runs again" in said[1]


def test_a_run_whose_logs_cannot_be_made_keeps_no_other_from_being_sent(tmp_path: Path) -> None:
    items = items_of(tmp_path)
    launcher = FakeLauncher(finishes)
    queue = queue_of(items, launcher)
    items[0].paths.logs.write_text("no directory")
    queue.step()
    assert len(launcher.submitted) == len(items) - 1
    items[0].paths.logs.unlink()
    follow(queue)
    assert len(launcher.submitted) == len(items)
    assert not queue.failed
