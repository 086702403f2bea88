"""Commands of five schedulers as shell scripts on PATH, and what the true ones print."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from isosweep.launchers.command import CommandLauncher
from isosweep.launchers.launcher import Order
from isosweep.plan.cells import PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import (
    SubmissionState,
    newest_submission,
    submit,
)
from tests.conftest import make_config

# Each decides by its words which of the files below says what it does.
PROGRAM = """#!/bin/sh
bin=$(dirname "$0")
case "$(basename "$0") $*" in
{cases}
*) echo "not expected: $0 $*" >&2; exit 97 ;;
esac
printf '%s\\n' "$@" >"$bin/$action.words"
. "$bin/$action.sh"
"""


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """`actions`: the beginning of a command line, by what it is for. `made`: what a submission
    prints, `job_id` what that means. `says`: what a poll prints of {id}, by what it means."""

    launcher: str
    actions: Mapping[str, str]
    made: str
    job_id: str | None
    says: Mapping[str, str]
    unknown: str

    def install(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        programs = {line.split()[0] for line in self.actions.values()}
        cases = "\n".join(f'"{line}"*) action={action} ;;' for action, line in self.actions.items())
        directory.mkdir()
        for program in programs:
            (directory / program).write_text(PROGRAM.replace("{cases}", cases))
            (directory / program).chmod(0o755)
        monkeypatch.setenv("PATH", str(directory), prepend=":")


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND\n"


def fails(words: str, status: int = 1) -> str:
    return f"echo {words!r} >&2; exit {status}"


def _job(word: str) -> str:
    return f"Job Id: {{id}}\n    Job_Name = run\n    job_state = {word}\n    queue = workq"


def _details(word: str) -> str:
    return (
        "2026-01-01 INFO cli.py:600 -- [JobDetails(type=<JobType.SUBMISSION: 'SUBMISSION'>, "
        f"job_id=None, submission_id='{{id}}', driver_info=None, status=<JobStatus.{word}: "
        f"'{word}'>, entrypoint='sh', message='status')]"
    )


def _managed(word: str) -> str:
    jobs = [{"job_id": number, "status": state} for number, state in ((1, "RUNNING"), (12, word))]
    return json.dumps(jobs)


PBS = Scheduler(
    launcher="pbs",
    actions={"submit": "qsub ", "poll": "qstat ", "cancel": "qdel ", "find": "qselect "},
    made="123.pbs01",
    job_id="123.pbs01",
    says={"pending": _job("Q"), "running": _job("R"), "gone": _job("F")},
    unknown=fails("qstat: Unknown Job Id 123.pbs01", 153),
)
LSF = Scheduler(
    launcher="lsf",
    actions={"submit": "bsub ", "find": "bjobs -a -noheader -o jobid -J", "poll": "bjobs "}
    | {"cancel": "bkill "},
    made="Job <123> is submitted to default queue <normal>.",
    job_id="123",
    says={
        "pending": "{id} PEND",
        "running": "{id} RUN",
        "gone": "{id} DONE",
        "failed": "{id} EXIT",
    },
    unknown=fails("Job <123> is not found", 255),
)
RAY = Scheduler(
    launcher="ray",
    actions={"submit": "ray job submit", "poll": "ray job list", "cancel": "ray job stop"},
    made="SUCC cli.py:67 -- Job 'x' submitted successfully",
    job_id=None,
    says={
        meaning: _details(word)
        for meaning, word in {
            "pending": "PENDING",
            "running": "RUNNING",
            "gone": "SUCCEEDED",
            "failed": "FAILED",
        }.items()
    },
    unknown=prints("INFO cli.py:600 -- []"),
)
SKYPILOT = Scheduler(
    launcher="skypilot",
    actions={"submit": "sky jobs launch", "poll": "sky jobs queue", "cancel": "sky jobs cancel"},
    made="Job submitted, ID: 12\nUseful commands",
    job_id="12",
    says={
        meaning: _managed(word)
        for meaning, word in {
            "pending": "STARTING",
            "running": "RECOVERING",
            "gone": "SUCCEEDED",
            "failed": "FAILED_SETUP",
            "cancelled": "CANCELLED",
        }.items()
    },
    unknown=prints("[]"),
)
KUEUE = Scheduler(
    launcher="kueue",
    actions={"submit": "kubectl create", "poll": "kubectl get", "cancel": "kubectl delete"},
    made="job.batch/x created",
    job_id=None,
    says={
        "pending": "{id}   Suspended   <none>",
        "running": "{id}   <none>   1",
        "gone": "{id}   SuccessCriteriaMet,Complete   <none>",
        "failed": "{id}   FailureTarget,Failed   <none>",
    },
    unknown=fails('Error from server (NotFound): jobs.batch "{id}" not found'),
)
SCHEDULERS = (PBS, LSF, RAY, SKYPILOT, KUEUE)


@dataclass
class Cluster:
    """A scheduler whose commands do as they are told."""

    scheduler: Scheduler
    bin: Path
    root: Path

    def does(self, action: str, script: str) -> None:
        (self.bin / f"{action}.sh").write_text(script)

    def words(self, action: str) -> list[str]:
        return (self.bin / f"{action}.words").read_text().splitlines()

    def launcher(self, *overrides: str, nodes: int = 1) -> CommandLauncher:
        config = make_config(f"launcher={self.scheduler.launcher}", *overrides)
        return CommandLauncher(config.launcher, gpus=0, nodes=nodes)

    def order(self, run_id: str = "tiny-sort-n2") -> Order:
        run = RunPaths(self.root / "it's a $HOME (1)" / "runs" / run_id)
        run.root.mkdir(parents=True, exist_ok=True)
        submission = submit(run, "command", {}, str(self.root), "batch")
        assert submission is not None
        logs = run.submission_logs(submission.number)
        logs.mkdir(parents=True)
        return Order(submission=submission, run=planned(run_id), logs=logs, slot=0)

    def state(self, order: Order) -> SubmissionState:
        state = newest_submission(order.submission.run)
        assert state is not None
        return state


def planned(run_id: str) -> PlannedRun:
    return PlannedRun(
        run_id=run_id,
        num_generations=2,
        problems_per_batch=4,
        seed=0,
        learning_rate=1e-3,
        milestones=(1e9,),
        num_steps=10,
        planned_flops=1e9,
        seconds=1.0,
        micro_batch=8,
    )
