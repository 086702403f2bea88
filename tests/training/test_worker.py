"""What a job executes, from its attempt's file to its end."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.errors import RecordError
from isosweep.files import write_json
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import (
    Attempt,
    LauncherName,
    Status,
)
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_records
from isosweep.training import reporter
from isosweep.training.attempt import main, trusts
from tests.runs import log_lines, wait_for
from tests.training import builders
from tests.training.builders import exit_status, in_a_process, prepared, spec_of, state_of

pytestmark = pytest.mark.train


def spec() -> RunSpec:
    return spec_of("task.num_eval_problems=4", "evaluation.samples_per_problem=1")


def submitted(
    root: Path, budget: float = 1e9, launcher: LauncherName = "local", **changed: object
) -> Attempt:
    run = RunPaths(root / "runs" / spec().run_id)
    if not run.root.exists():
        prepared(spec(), root)
    return builders.submitted(run, [budget], launcher, **changed)


def ended(attempt: Attempt) -> tuple[Status, str]:
    last = state_of(attempt.run)
    return last.status, last.reason


def forked(*argv: str) -> int:
    """A worker in a fork; its process."""
    return in_a_process(lambda: os._exit(main(list(argv))))


def trains(run: RunPaths, steps: int = 3) -> bool:
    return len(log_lines(run.metrics)) >= steps


def test_a_worker_that_is_not_wanted_leaves_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = submitted(tmp_path)
    first.request_cancel("ada on login1")
    assert main([str(first.path)]) == 0
    assert ended(first) == (Status.CANCELLED, "cancelled by ada on login1")
    assert main([str(first.path)]) == 0
    second = submitted(tmp_path)
    assert main([str(first.path)]) == 0
    second.request_cancel("bob")
    assert main([str(first.run.root)]) == 0
    said = capfd.readouterr().out.splitlines()
    assert [line.split(": ", 2)[2] for line in said] == [
        "cancelled by ada on login1: nothing to do",
        "it is over (cancelled): nothing to do",
        "attempt 2 owns the run now: nothing to do",
        "cancelled by bob: nothing to do",
    ]
    assert not log_lines(first.run.records)


def test_an_attempt_that_cannot_begin_hides_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = submitted(tmp_path)
    assert exit_status(forked(str(first.path))) == 0
    before = read_records(first.run.records)
    assert len(before.records) > 1

    def changed_data(*_: object) -> None:
        raise RecordError("other problems than the first attempt's")

    monkeypatch.setattr("isosweep.training.assembly.hold_problems", changed_data)
    second = submitted(tmp_path, 2e9)
    assert exit_status(forked(str(second.path))) == 1
    assert ended(second)[0] is Status.FAILED
    assert read_records(first.run.records) == before


def test_an_end_that_could_not_be_written_is_said_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = Attempt.write, [OSError(28, "No space left on device")]

    def written(own: Attempt, *, sync: bool = True) -> None:
        if not own.live and full:
            raise full.pop()
        write(own, sync=sync)

    monkeypatch.setattr(Attempt, "write", written)
    attempt = submitted(tmp_path)
    assert exit_status(forked(str(attempt.path))) == 1
    assert ended(attempt) == (Status.FAILED, "OSError: [Errno 28] No space left on device")


@pytest.mark.parametrize("argv", [[], ["1.json", "2"], ["none.json"], ["1.json"], ["."]])
def test_what_is_no_attempt_is_named(
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("1.json").write_text("garbage")
    assert main(argv) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert (argv[0] if len(argv) == 1 else "isosweep.training") in said


def amid_a_step(attempt: Attempt) -> int:
    """A worker whose third step does not end before `go` is in the run's directory."""
    from isosweep.training.trainer import SweepTrainer

    quick = SweepTrainer.make_batch
    go, amid = attempt.run.root / "go", attempt.run.root / "amid"
    tester = os.getpid()

    def slow(self: SweepTrainer, count: int) -> Any:
        while self.steps_done == 2 and not go.exists():
            amid.touch()
            time.sleep(0.01)
            # Nobody is left to let it go on, should the test fail.
            if os.getppid() != tester:
                os._exit(1)
        return quick(self, count)

    def work() -> None:
        reporter.HEARTBEAT_S = 0.2  # type: ignore[attr-defined]
        SweepTrainer.make_batch = slow  # type: ignore[method-assign]
        os._exit(main([str(attempt.path)]))

    process = in_a_process(work)
    wait_for(amid.exists)
    wait_for(lambda: 2 in complete_checkpoints(attempt.run.attempt_checkpoints(1)))
    return process


def next_state(run: RunPaths) -> Attempt:
    """The state that the worker writes next."""
    seen = state_of(run)
    wait_for(lambda: state_of(run).updated > seen.updated)
    return state_of(run)


def test_a_worker_amid_a_long_step_lives_and_obeys_a_cancel(tmp_path: Path) -> None:
    attempt = submitted(tmp_path, 1e12)
    process = amid_a_step(attempt)
    # What the step before wrote may come last.
    before = next_state(attempt.run)
    beat = next_state(attempt.run)
    after = next_state(attempt.run)
    assert (before.status, after.status) == (Status.RUNNING, Status.RUNNING)
    assert after.activity == "step 3"
    assert after.progressed == beat.progressed < after.updated
    # The terminal that it was started from is closed.
    os.kill(process, signal.SIGHUP)
    attempt.request_cancel("ada")
    # A cancelled job is sent a signal, too.
    os.kill(process, signal.SIGTERM)
    (attempt.run.root / "go").touch()
    assert exit_status(process) == 0
    assert ended(attempt) == (Status.CANCELLED, "cancelled by ada")
    assert state_of(attempt.run).step in complete_checkpoints(attempt.run.attempt_checkpoints(1))


SCONTROL = """#!/bin/sh
echo "$@" >> "$0.calls"
if [ -e "$0.refuses" ]; then echo "Requested operation is presently disabled" >&2; exit 1; fi
"""


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    command = tmp_path / "bin" / "scontrol"
    command.parent.mkdir()
    command.write_text(SCONTROL)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setattr("isosweep.job._PAUSES_S", (0.0, 0.1))
    return command


REFUSED = "and not requeued: scontrol requeue 17: Requested operation is presently disabled"


@pytest.mark.parametrize("requeue", [False, True])
def test_a_warning_that_leads_to_no_requeue_ends_the_attempt(
    requeue: bool, scontrol: Path, tmp_path: Path
) -> None:
    Path(f"{scontrol}.refuses").touch()
    attempt = submitted(tmp_path, 1e12, "slurm", requeue=requeue)
    process = forked(str(attempt.path))
    wait_for(lambda: trains(attempt.run))
    os.kill(process, signal.SIGUSR2)
    assert exit_status(process) == 0
    asked = Path(f"{scontrol}.calls")
    assert (asked.read_text() if asked.exists() else "") == "requeue 17\n" * (2 * requeue)
    reason = f"requeued: stopped by SIGUSR2, {REFUSED}" if requeue else "stopped by SIGUSR2"
    assert ended(attempt) == (Status.INTERRUPTED, reason)


def test_a_warning_before_the_first_step_costs_no_more_than_the_rest_of_the_job(
    scontrol: Path, tmp_path: Path
) -> None:
    attempt = submitted(tmp_path, 1e12, "slurm", requeue=True)
    process = forked(str(attempt.path))
    wait_for(lambda: state_of(attempt.run).worker, pause=0.001)
    os.kill(process, signal.SIGUSR2)
    assert exit_status(process) == 0
    assert Path(f"{scontrol}.calls").read_text() == "requeue 17\n"
    # Each such job comes a step forward, however short its time limit is.
    assert complete_checkpoints(attempt.run.attempt_checkpoints(1)).keys() == {1}


def test_a_spec_of_another_run_is_refused(tmp_path: Path) -> None:
    attempt = submitted(tmp_path)
    other = replaced(spec(), learning_rate=2 * spec().learning_rate)
    write_json(attempt.run.spec, {"spec": other.to_json()})
    assert main([str(attempt.path)]) == 1
    status, reason = ended(attempt)
    assert status is Status.FAILED
    assert f"holds the spec of {other.run_id}, and this run is {spec().run_id}" in reason
    assert not log_lines(attempt.run.records)


def test_trust_counts_in_an_attempt_that_nobody_else_may_write(tmp_path: Path) -> None:
    attempt = submitted(tmp_path)
    document = json.loads(attempt.path.read_text())
    assert not trusts(attempt)
    document["job"]["trust"] = True
    write_json(attempt.path, document)
    assert trusts(state_of(attempt.run))
    attempt.path.chmod(0o666)
    assert not trusts(state_of(attempt.run))
