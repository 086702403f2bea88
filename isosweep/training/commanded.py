"""A run that a command of the user's trains: started, followed by its log, stopped, recorded."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.compute import Compute
from isosweep.config.trainer import RESUME_FROM, STEP
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError, TrainerError
from isosweep.importing.runs import ForeignRun
from isosweep.models.weights import weights
from isosweep.store.attempts import BEGINNING, OvertakenError, Status
from isosweep.store.checkpoints import complete
from isosweep.store.records import Evaluation, Record
from isosweep.training import tied
from isosweep.training.commanded_log import Spent, Told, read_log
from isosweep.training.worker import Session

# Of budgets that lengths of answers take part in, a command is told so much more than is planned:
# it is ended by what is measured.
_MORE_STEPS = 2
# Where no evaluation comes at the end, a run is over this far beyond its budget.
_BEYOND = 1.25


class Commanded:
    """One attempt of a command at a session's run."""

    def __init__(self, session: Session) -> None:
        self._session, self._spec = session, session.spec
        self._trainer = session.spec.trainer
        self.directory = session.attempt.run.trained(session.attempt.number)
        self._recorded: set[int] = set()
        self._watched = self._resumed = session.start.step
        self._before = Compute()
        # Steps and the seconds of the run at which they were first seen.
        self._seen: list[tuple[int, float]] = []
        self._told: Told | None = None
        self._unread: SettingError | None = None
        self._began = time.monotonic()
        progress = session.start.progress
        self._from: str | None = progress.get("foreign")
        if progress:
            self._before = Compute(**progress["compute"])

    def run(self) -> None:
        """Train until the budget is reached, a stop is asked for, or the command ends.

        Raises TrainerError where it ends before that, or its log cannot be believed.
        """
        session, reporter = self._session, self._session.reporter
        self._recorded = reporter.started(session.start)
        reporter.spent = self._before
        self._seen.append((self._resumed, self._before.device_seconds / self._spec.devices))
        if session.monitor.verdict is not None or session.schedule.is_over(self._before):
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        reporter.doing(BEGINNING)
        reporter.state(Status.RUNNING)
        process = self._start()
        try:
            status = self._follow(process)
        finally:
            _kill(process)
        self._look(ended=True)
        self._keep_checkpoints()
        self._judge(status)

    @cached_property
    def values(self) -> dict[str, object]:
        """What the command's texts name of the run."""
        spec, schedule = self._spec, self._session.schedule
        one = Spent(spec=spec, steps=np.zeros(0)).at(1).spent(schedule.unit)
        planned = steps_for(schedule.milestones[-1], one, 1)
        more = 1 if schedule.unit == "rollouts" else _MORE_STEPS
        return {
            "n": spec.num_generations,
            "B": spec.problems_per_batch,
            "completions": spec.completions_per_step,
            "T": more * planned,
            "every": max(1, planned // 10),
            "seed": spec.seed,
            "learning_rate": f"{spec.learning_rate:.12g}",
            "model": weights(spec.model) if self._trainer.names("model") else spec.model.name,
            "directory": self.directory,
            "python": sys.executable,
            RESUME_FROM: self._from,
        }

    def _start(self) -> subprocess.Popen[bytes]:
        trainer, values = self._trainer, self.values
        words = [word.format(**values) for word in (*trainer.command, *trainer.more)]
        if self._from is not None:
            words += [word.format(**values) for word in trainer.resume]
        added = {name: text.format(**values) for name, text in (trainer.environment or {}).items()}
        sys.stdout.write(f"trainer.command: {words}\n")
        sys.stdout.flush()
        return subprocess.Popen(
            [sys.executable, "-I", "-S", tied.__file__, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **added},
            start_new_session=True,
        )

    def _follow(self, process: subprocess.Popen[bytes]) -> int | None:
        """Its exit status, once it has ended by itself; None where it was ended."""
        session, stop = self._session, self._session.stop
        next_look = time.monotonic()
        while process.poll() is None:
            if stop.overtaken is not None:
                raise OvertakenError(stop.overtaken)
            if stop.reason is None and time.monotonic() < next_look:
                time.sleep(min(0.2, self._trainer.poll_s))
                continue
            self._look()
            self._keep_checkpoints()
            if stop.reason is not None or self._is_over() or session.monitor.verdict is not None:
                self._end(process)
                return None
            next_look = time.monotonic() + self._trainer.poll_s
        return process.returncode

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ask it to stop, and give it the time for that."""
        self._session.reporter.doing("stopping its command")
        os.killpg(process.pid, self._trainer.signal)
        deadline = time.monotonic() + self._trainer.stop_grace_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)

    def _is_over(self) -> bool:
        """Whether the budget is behind the newest evaluation, or far behind training."""
        if self._told is None:
            return False
        schedule = self._session.schedule
        last = max(self._recorded, default=0)
        if last and schedule.is_over(self._told.spent.at(last)):
            return True
        spent = self._told.spent.at(self._told.last_step)
        return spent.spent(schedule.unit) > _BEYOND * schedule.milestones[-1]

    def _look(self, *, ended: bool = False) -> None:
        """Read what is new in the log, and record it."""
        log = self._trainer.log.format(**self.values)
        try:
            self._told = told = read_log(self._spec, log, self._before, self._resumed, ended=ended)
        except SettingError as unread:
            # Not there yet, or half written. What it says at the end is said then.
            self._unread = unread
            return
        self._unread = None
        self._require_plausible(told)
        if told.last_step > self._seen[-1][0]:
            since = time.monotonic() - self._began
            self._seen.append((told.last_step, self._seen[0][1] + since))
        reporter, monitor = self._session.reporter, self._session.monitor
        for record in self._records(told):
            reporter.record(record)
            self._recorded.add(record.step)
        for step, values in told.metrics:
            if step > self._watched:
                reporter.metrics(step, values)
                for warning in monitor.observe(step, values):
                    reporter.warning(warning)
        if told.last_step > self._watched:
            self._watched = told.last_step
            reporter.step, reporter.spent = told.last_step, self._spent(told.last_step)
            reporter.doing(f"step {told.last_step + 1}")

    def _spent(self, step: int) -> Compute:
        """Compute behind a step of this attempt; wall time between two looks goes by steps."""
        assert self._told is not None
        steps, seconds = np.array(self._seen).T
        return self._told.spent.at(step, float(np.interp(step, steps, seconds)))

    def _records(self, told: Told) -> Iterator[Record]:
        if told.run is None:
            return
        for k, step in enumerate(told.run.steps.tolist()):
            if step in self._recorded or (step < self._resumed and step > 0):
                continue
            yield Record(
                **_evaluation(told.run, k),
                step=step,
                compute=self._spent(step) if step else Compute(),
                unix_time=time.time(),
                sets={
                    name: Evaluation(mean_reward=float(of[k]))
                    for name, of in told.run.sets.items()
                    if of[k] == of[k]
                },
            )

    def _require_plausible(self, told: Told) -> None:
        """Raise TrainerError for a log that cannot be true of this run."""
        asked, last = int(str(self.values["T"])), told.last_step
        if self._trainer.names("T") and last > asked:
            raise TrainerError(f"its log is at step {last}, and it was asked for {asked}")
        tokens, rollouts = told.spent.tokens, last * self._spec.completions_per_step
        if tokens is not None and (np.diff(tokens[told.spent.steps > self._resumed]) < 0).any():
            raise TrainerError(
                "the tokens of its log fall: they are those so far, or "
                "trainer.columns={per_step:true} says that each row has its own"
            )
        if tokens is not None and len(tokens) and tokens[-1] < rollouts:
            raise TrainerError(
                f"its log has {tokens[-1]:,.0f} tokens at step {last}, fewer than the {rollouts:,} "
                f"rollouts of {last} steps of n x B = {self._spec.completions_per_step}"
            )

    def _keep_checkpoints(self) -> None:
        """Note the command's own checkpoints, from which a later attempt goes on."""
        pattern = self._trainer.checkpoints
        if pattern is None or self._told is None:
            return
        for step, path in sorted(_found(self.directory, pattern)):
            place = self._session.attempt.run.attempt_checkpoints(self._session.attempt.number)
            checkpoint = place / f"checkpoint-{step}"
            if checkpoint.exists() or not self._resumed < step <= self._told.last_step:
                continue
            checkpoint.mkdir(parents=True, exist_ok=True)
            compute, health = asdict(self._spent(step)), self._session.monitor.to_json()
            complete(checkpoint, compute=compute, health=health, foreign=str(path))

    def _judge(self, status: int | None) -> None:
        """Raise TrainerError where the command has ended, and has not done what it was to do."""
        if self._session.stop.reason is not None or self._session.monitor.verdict is not None:
            return
        schedule, last = self._session.schedule, max(self._recorded, default=0)
        reached = self._spent(last) if self._told is not None else Compute()
        # A trainer may fail as it ends, with all that was asked of it done.
        if last and schedule.is_over(reached):
            return
        if status:
            raise TrainerError(
                f"the command ended with status {status}; mode=status runs=RUN shows its words"
            )
        if self._unread is not None:
            raise TrainerError(f"the command ended, and its log cannot be read: {self._unread}")
        if not self._recorded:
            raise TrainerError(
                "the command ended, and its log has no held-out reward: name the column by "
                "trainer.columns={columns:{reward:NAME}}, or have it evaluate"
            )
        share = math.floor(100 * reached.spent(schedule.unit) / schedule.milestones[-1])
        how = "ended early" if status == 0 else f"was stopped at {_BEYOND:.0%} of the budget"
        raise TrainerError(
            f"the command {how}: its last evaluation is of step {last}, at {share}% of it. It is "
            "to evaluate after its last step too; the first update is step 1"
        )


def _evaluation(run: ForeignRun, k: int) -> dict[str, Any]:
    """The fields of a record that say what evaluation `k` has measured."""
    if run.successes:
        return {"successes": run.successes[k], "samples_per_problem": run.samples}
    told: dict[str, Any] = {"mean_reward": float(run.rewards[k])}
    return told if run.errors is None else told | {"standard_error": float(run.errors[k])}


def _found(directory: Path, pattern: str) -> Iterator[tuple[int, Path]]:
    """The command's checkpoints: step, and the part of the path that has it."""
    head, _, tail = pattern.partition(f"{{{STEP}}}")
    own = re.compile(re.escape(str(directory / head)) + r"(\d+)" + re.escape(tail))
    for path in directory.glob(pattern.replace(f"{{{STEP}}}", "*")):
        if match := own.fullmatch(str(path)):
            # Of `checkpoint-3/trainer_state.json` the checkpoint is `checkpoint-3`.
            depth = tail.count("/")
            yield int(match[1]), path.parents[depth - 1] if depth else path


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command, and all that it started in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
