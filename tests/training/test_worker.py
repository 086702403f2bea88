"""What a job executes, from its submission's file to its end."""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.task import CustomConfig
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.state import RunState, read_state
from isosweep.store.submissions import (
    Job,
    LauncherName,
    Process,
    Submission,
    newest_submission,
    read_submission,
    request_cancel,
    submit,
)
from isosweep.training import heartbeat
from isosweep.training.__main__ import main
from isosweep.training.stopping import ECHO_S
from isosweep.training.worker import TrainRun, trusts
from tests.conftest import make_config
from tests.runs import log_lines, wait_for
from tests.training.builders import exit_status, in_a_process, prepared, spec_of

pytestmark = pytest.mark.train


def spec() -> RunSpec:
    return spec_of("task.num_eval_problems=4", "evaluation.samples_per_problem=1")


def submitted(
    root: Path, budget: float = 1e9, launcher: LauncherName = "local", **changed: object
) -> Submission:
    run = RunPaths(root / "runs" / spec().run_id)
    if not run.root.exists():
        prepared(spec(), root)
    # One after every step, however busy the machine is.
    saving = CheckpointConfig(share=1.0, min_interval_s=0.0)
    document = TrainRun("", (budget,), "flops", make_config().health, saving).to_json() | changed
    del document["run_dir"]
    made = submit(run, launcher, document, "sweeps/s", "b1")
    assert made is not None
    return made


def file_of(submission: Submission) -> str:
    return str(submission.run.submission(submission.number))


def ended(submission: Submission) -> tuple[str, str]:
    state = newest_submission(submission.run)
    assert state is not None
    assert state.end is not None
    return state.end.outcome, state.end.reason


def forked(*argv: str) -> int:
    """A worker in a fork; its process."""
    return in_a_process(lambda: os._exit(main(list(argv))))


def execute(*argv: str) -> int:
    return exit_status(forked(*argv))


def state_of(run: RunPaths) -> RunState:
    state = read_state(run)
    assert state is not None
    return state


def trains(run: RunPaths, steps: int = 3) -> bool:
    return len(log_lines(run.metrics)) >= steps


def job_of(submission: Submission) -> Job | None:
    return read_submission(submission.run, submission.number).job


def test_a_worker_that_is_not_wanted_leaves_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = submitted(tmp_path)
    request_cancel(first, "ada on login1")
    assert main([file_of(first)]) == 0
    assert ended(first) == ("cancelled", "cancelled by ada on login1")
    assert main([file_of(first)]) == 0
    second = submitted(tmp_path)
    assert main([file_of(first)]) == 0
    request_cancel(second, "bob")
    assert main([str(first.run.root)]) == 0
    said = capfd.readouterr().out.splitlines()
    assert [line.split(": ", 2)[2] for line in said] == [
        "cancelled by ada on login1: nothing to do",
        "it is over (cancelled): nothing to do",
        "it is over (cancelled): nothing to do",
        "cancelled by bob: nothing to do",
    ]
    assert not first.run.attempts.exists()


def test_an_array_task_works_on_the_submission_whose_logs_it_is_given(tmp_path: Path) -> None:
    submission = submitted(tmp_path / "a")
    request_cancel(submission, "ada")
    logs = submission.run.submission_logs(1)
    logs.mkdir(parents=True)
    (tmp_path / "0").symlink_to(logs)
    assert main([str(tmp_path / "0")]) == 0
    assert ended(submission)[0] == "cancelled"


@pytest.mark.parametrize("argv", [[], ["1.json", "2"], ["none.json"], ["1.json"], ["."]])
def test_what_is_no_submission_is_named(
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


def test_a_local_run_inside_an_allocation_is_no_job_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    local = submitted(tmp_path / "a")
    (local.run.spec).write_text("{")
    assert execute(file_of(local)) == 1
    job = job_of(local)
    assert job is not None
    assert job.job_id != "17"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "16")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    remote = submitted(tmp_path / "b", launcher="slurm")
    remote.run.spec.unlink()
    assert execute(file_of(remote)) == 1
    assert job_of(remote) == Job(job_id="16_3")
    outcome, reason = ended(remote)
    assert outcome == "failed"
    assert f"{remote.run.spec}: no such run" in reason


def amid_a_step(submission: Submission) -> int:
    """A worker whose third step does not end before `go` is in the run's directory."""
    from isosweep.training.trainer import CountedGRPOTrainer

    quick = CountedGRPOTrainer.make_batch
    go, amid = submission.run.root / "go", submission.run.root / "amid"
    tester = os.getpid()

    def slow(self: CountedGRPOTrainer, count: int) -> Any:
        while self.steps_done == 2 and not go.exists():
            amid.touch()
            time.sleep(0.01)
            # Nobody is left to let it go on, should the test fail.
            if os.getppid() != tester:
                os._exit(1)
        return quick(self, count)

    def work() -> None:
        heartbeat.HEARTBEAT_S = 0.2  # type: ignore[attr-defined]
        CountedGRPOTrainer.make_batch = slow  # type: ignore[method-assign]
        os._exit(main([file_of(submission)]))

    process = in_a_process(work)
    wait_for(amid.exists)
    wait_for(lambda: 2 in complete_checkpoints(submission.run.attempt_checkpoints(1)))
    return process


def next_state(run: RunPaths) -> RunState:
    """The state that the worker writes next."""
    seen = state_of(run)
    wait_for(lambda: state_of(run).updated > seen.updated)
    return state_of(run)


def test_a_second_signal_ends_a_worker_amid_its_step(tmp_path: Path) -> None:
    submission = submitted(tmp_path, 1e12)
    process = amid_a_step(submission)
    os.kill(process, signal.SIGTERM)
    time.sleep(0.1)
    # That of somebody else who was asked to stop it.
    os.kill(process, signal.SIGINT)
    time.sleep(ECHO_S + 0.1)
    assert Process.of(process).alive()
    os.kill(process, signal.SIGTERM)
    assert exit_status(process) == 0
    said = "stopped by SIGTERM, and ended amid a step by a second SIGTERM"
    assert ended(submission) == ("interrupted", said)
    state = state_of(submission.run)
    assert (state.status, state.reason) == ("interrupted", said)


def test_a_worker_amid_a_long_step_lives_and_obeys_a_cancel(tmp_path: Path) -> None:
    submission = submitted(tmp_path, 1e12)
    process = amid_a_step(submission)
    # What the step before wrote may come last.
    before = next_state(submission.run)
    beat = next_state(submission.run)
    after = next_state(submission.run)
    assert (before.status, after.status, after.activity) == ("running", "running", "step 3")
    assert after.progressed == beat.progressed < after.updated
    # The terminal that it was started from is closed.
    os.kill(process, signal.SIGHUP)
    request_cancel(submission, "ada")
    # A cancelled job is sent a signal, too.
    os.kill(process, signal.SIGTERM)
    (submission.run.root / "go").touch()
    assert exit_status(process) == 0
    assert ended(submission) == ("cancelled", "cancelled by ada")
    state = state_of(submission.run)
    assert (state.status, state.reason) == ("cancelled", "cancelled by ada")
    assert state.step in complete_checkpoints(submission.run.attempt_checkpoints(1))


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


@pytest.mark.parametrize(
    ("sent", "requeues", "calls", "outcome", "refused"),
    [
        (signal.SIGUSR2, True, 1, None, ""),
        pytest.param(signal.SIGUSR2, False, 0, "interrupted", "", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, True, 0, None, "", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, True, 0, "interrupted", "", marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR2, True, 2, "interrupted", REFUSED, marks=pytest.mark.slow),
    ],
)
def test_under_slurm_a_warning_leads_to_a_requeue(
    sent: signal.Signals,
    requeues: bool,
    calls: int,
    outcome: str | None,
    refused: str,
    scontrol: Path,
    tmp_path: Path,
) -> None:
    if refused:
        Path(f"{scontrol}.refuses").touch()
    submission = submitted(tmp_path, 1e12, "slurm", requeue=requeues)
    process = forked(file_of(submission))
    wait_for(lambda: trains(submission.run))
    os.kill(process, sent)
    assert exit_status(process) == 0
    asked = Path(f"{scontrol}.calls")
    assert (asked.read_text() if asked.exists() else "") == "requeue 17\n" * calls
    state, end = state_of(submission.run), read_submission(submission.run, 1).end
    reason = f"{'requeued: ' if calls else ''}stopped by {sent.name}"
    assert (state.status, state.reason) == ("interrupted", reason)
    assert (end.outcome if end else None) == outcome
    assert end is None or end.reason == ", ".join(filter(None, [reason, refused]))


def test_a_warning_before_the_first_step_costs_no_more_than_the_rest_of_the_job(
    scontrol: Path, tmp_path: Path
) -> None:
    submission = submitted(tmp_path, 1e12, "slurm", requeue=True)
    process = forked(file_of(submission))
    wait_for(lambda: read_state(submission.run), pause=0.001)
    os.kill(process, signal.SIGUSR2)
    assert exit_status(process) == 0
    assert Path(f"{scontrol}.calls").read_text() == "requeue 17\n"
    # Each such job comes a step forward, however short its time limit is.
    assert complete_checkpoints(submission.run.attempt_checkpoints(1)).keys() == {1}


def test_a_spec_of_another_run_is_refused(tmp_path: Path) -> None:
    submission = submitted(tmp_path)
    other = replace(spec(), learning_rate=2 * spec().learning_rate)
    write_json(submission.run.spec, {"spec": other.to_json()})
    assert main([file_of(submission)]) == 1
    outcome, reason = ended(submission)
    assert outcome == "failed"
    assert f"holds the spec of {other.run_id}, and this run is {spec().run_id}" in reason
    assert read_state(submission.run) is None


def test_a_spec_that_others_may_write_names_no_function(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    lengths = {"prompt_tokens": 5.0, "completion_tokens": 5.0, "max_completion_tokens": 5}
    function = CustomConfig(function="evil:f", directory=str(tmp_path))
    kind = {"kind": "custom", "sort": None, "template": None, "custom": function}
    task = replace(spec().task, **kind, **lengths)  # type: ignore[arg-type]
    run = prepared(replace(spec(), task=task), tmp_path)
    run.spec.chmod(0o666)
    job = TrainRun(str(run.root), (1e9,), "flops", make_config().health)
    with pytest.raises(SettingError, match=r"task\.custom=.*may be written by everybody"):
        job()
    assert not (tmp_path / "ran").exists()


def test_trust_counts_in_a_submission_that_nobody_else_may_write(tmp_path: Path) -> None:
    submission = submitted(tmp_path)
    document = json.loads(submission.path.read_text())
    assert not trusts(submission)
    document["job"]["trust"] = True
    write_json(submission.path, document)
    assert trusts(submission)
    submission.path.chmod(0o666)
    assert not trusts(submission)
