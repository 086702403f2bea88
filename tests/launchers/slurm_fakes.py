"""Slurm's commands, played by scripts, and submissions for them to tell of."""

import shlex
from pathlib import Path

from isosweep.launchers.launcher import Order
from isosweep.plan.cells import PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import Job, SubmissionState, read_submission, submit
from isosweep.store.submissions import started as say_started

SETTINGS = ("launcher=slurm", "budget=1e10")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")


class Fakes:
    """Slurm's commands as scripts: what each answers, and how each was called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "calls"
        self.log.touch()
        for command in COMMANDS:
            self.answers(command, "")

    def answers(self, command: str, out: str, words: str = "", status: int = 0) -> None:
        """From now on `command` prints `out`, and `words` as an error."""
        self.runs(
            command,
            f"printf %s {shlex.quote(out)}; printf %s {shlex.quote(words)} >&2; exit {status}",
        )

    def runs(self, command: str, shell: str) -> None:
        """From now on `command` does this; what sbatch is handed is in `$script`."""
        given = f"script={self.directory}/$(ls {self.directory} | wc -l).sbatch; cat >$script"
        script = self.directory / command
        shell = f"{given}\n{shell}" if command == "sbatch" else shell
        script.write_text(f'#!/bin/sh\necho "{command} $*" >>{self.log}\n{shell}\n')
        script.chmod(0o755)

    def scripts(self) -> list[str]:
        """What sbatch was handed so far."""
        found = sorted(self.directory.glob("*.sbatch"), key=lambda path: int(path.stem))
        return [path.read_text() for path in found]

    def calls(self, command: str) -> list[str]:
        """The command lines so far that begin so."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line.startswith(f"{command} ")]


def orders_of(tmp_path: Path, run: PlannedRun, count: int) -> list[Order]:
    """`count` submissions of one batch, as a queue hands them to a launcher."""
    orders = []
    for index in range(count):
        paths = RunPaths(tmp_path / "runs" / f"r{index}")
        paths.root.mkdir(parents=True)
        submission = submit(paths, "slurm", {}, str(tmp_path / "sweep"), "B", index)
        assert submission is not None
        logs = paths.submission_logs(1)
        logs.mkdir(parents=True)
        orders.append(Order(submission=submission, run=run, logs=logs, slot=0))
    return orders


def states_of(orders: list[Order], ids: list[str] | None = None) -> list[SubmissionState]:
    """What is known of the submissions, whose jobs have `ids`."""
    for order, job_id in zip(orders, ids or [], strict=False):
        say_started(order.submission, Job(job_id=job_id))
    return [read_submission(order.submission.run, 1) for order in orders]


def row(job_id: str, state: str, reason: str = "None", name: str = "isosweep-B") -> str:
    """A line of squeue."""
    return f"{job_id}|{state}|{reason}|{name}\n"
