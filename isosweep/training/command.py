"""A run that a command of the user's trains: started, followed by its log, stopped, recorded.

Rollouts are the steps that the command logs times n x B. Tokens are those that it logs, or as
planned; FLOPs follow from the tokens.
"""

import math
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isosweep.compute import Compute
from isosweep.config.base import replaced
from isosweep.config.launcher import RESUME_FROM, STEP
from isosweep.config.study import ImportConfig, columns_of
from isosweep.costs.flops import rollout_flops
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError, TrainerError
from isosweep.importing.columns import USUAL_COMPUTE, find_columns, first_of, guess_column
from isosweep.importing.readers import read_sources
from isosweep.importing.runs import ForeignRun, read_runs, valid_rows
from isosweep.importing.store import record_of
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import BEGINNING, OvertakenError, Status
from isosweep.store.checkpoints import complete
from isosweep.training import tied
from isosweep.training.session import Session

if TYPE_CHECKING:
    import pandas

# With budgets that lengths of answers take part in, a command is given so many times the planned
# steps: it is ended by what is measured.
_MORE_STEPS = 2
# Where no evaluation comes at the end, a run is over this far beyond its budget.
_BEYOND = 1.25


class CommandTrainer:
    """Trains a session's run by the command of `trainer.command`."""

    def __init__(self, session: Session, recorded: set[int]) -> None:
        """`recorded`: steps that have a record."""
        self._session, self._spec = session, session.spec
        self._trainer = session.spec.trainer
        self._directory = session.attempt.run.trained(session.attempt.number)
        self._recorded = recorded
        self._unread: SettingError | None = None
        self._began = time.monotonic()
        progress = session.start.progress
        self._resume_from: str | None = progress.get("foreign")
        self._before = Compute(**progress["compute"]) if progress else Compute()
        # Until the command has logged something: as far as the run was.
        steps, tokens = np.array([[session.start.step], [self._before.tokens]], dtype=np.float64)
        self._log = Log(steps=steps, tokens=tokens)
        # Steps, and the seconds of the run at which they were first seen.
        self._seen = [(session.start.step, self._before.device_seconds / self._spec.devices)]

    def run(self) -> None:
        """Train until the budget is reached, a stop is asked for, or the command ends.

        Raises TrainerError where it ends before that, or its log cannot be believed.
        """
        session, reporter = self._session, self._session.reporter
        reporter.spent = self._before
        if session.monitor.verdict is not None or session.schedule.is_over(self._before):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        reporter.doing(BEGINNING)
        reporter.state(Status.RUNNING)
        process = self._start()
        try:
            status = self._follow(process)
        finally:
            _kill(process)
        self._record(ended=True)
        self._judge(status)

    @cached_property
    def _values(self) -> dict[str, object]:
        """What the command's texts may name of the run."""
        spec, schedule = self._spec, self._session.schedule
        one = compute_of(spec, 1).spent(schedule.unit)
        planned = steps_for(schedule.milestones[-1], one, 1)
        return {
            "n": spec.num_generations,
            "B": spec.problems_per_batch,
            "completions": spec.completions_per_step,
            "T": planned if schedule.unit == "rollouts" else _MORE_STEPS * planned,
            "every": max(1, planned // 10),
            "seed": spec.seed,
            "learning_rate": f"{spec.learning_rate:.12g}",
            "model": weights(spec.model) if self._trainer.names("model") else spec.model.name,
            "directory": self._directory,
            "python": sys.executable,
            RESUME_FROM: self._resume_from,
        }

    def _start(self) -> subprocess.Popen[bytes]:
        trainer = self._trainer
        resume = trainer.resume if self._resume_from is not None else []
        words = [word.format(**self._values) for word in (*trainer.command, *trainer.more, *resume)]
        variables = (trainer.environment or {}).items()
        sys.stdout.write(f"trainer.command: {words}\n")
        sys.stdout.flush()
        return subprocess.Popen(
            [sys.executable, "-I", "-S", tied.__file__, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **{name: text.format(**self._values) for name, text in variables}},
            start_new_session=True,
        )

    def _follow(self, process: subprocess.Popen[bytes]) -> int | None:
        """Record what the command logs; its exit status, or None where it was ended."""
        session, stop = self._session, self._session.stop
        next_poll = time.monotonic()
        while process.poll() is None:
            if stop.overtaken is not None:
                raise OvertakenError(stop.overtaken)
            if stop.reason is None and time.monotonic() < next_poll:
                time.sleep(min(0.2, self._trainer.poll_s))
                continue
            self._record()
            if stop.reason is not None or self._is_over() or session.monitor.verdict is not None:
                session.reporter.doing("stopping its command")
                os.killpg(process.pid, self._trainer.signal)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self._trainer.stop_grace_s)
                return None
            next_poll = time.monotonic() + self._trainer.poll_s
        return process.returncode

    def _is_over(self) -> bool:
        """Whether the budget is behind the newest evaluation, or far behind training."""
        schedule, last = self._session.schedule, max(self._recorded, default=0)
        trained = self._spent(self._log.last_step).spent(schedule.unit)
        ended = last > 0 and schedule.is_over(self._spent(last))
        return ended or trained > _BEYOND * schedule.milestones[-1]

    def _record(self, *, ended: bool = False) -> None:
        """Record what is new in the log, and which checkpoints it has reached."""
        session, reporter = self._session, self._session.reporter
        place = self._trainer.log.format(**self._values)
        try:
            log = read_log(self._spec, place, self._before, session.start.step, ended=ended)
        except SettingError as unread:
            # Not there yet, or half written. What it says at the end is said then.
            self._unread = unread
            return
        self._log, self._unread, watched = log, None, self._seen[-1][0]
        self._require_plausible(log)
        if log.last_step > watched:
            seconds = self._seen[0][1] + time.monotonic() - self._began
            self._seen.append((log.last_step, seconds))
        self._record_evaluations(log)
        for step, values in log.metrics:
            if step > watched:
                reporter.metrics(step, values)
                for warning in session.monitor.observe(step, values):
                    reporter.warning(warning)
        if log.last_step > watched:
            reporter.step, reporter.spent = log.last_step, self._spent(log.last_step)
            reporter.doing(f"step {log.last_step + 1}")
        self._keep_checkpoints(log.last_step)

    def _spent(self, step: int) -> Compute:
        """Compute behind a step of this attempt; wall time between two polls goes by steps."""
        steps, seconds = np.array(self._seen).T
        passed = float(np.interp(step, steps, seconds))
        return compute_of(self._spec, step, self._log.tokens_at(step), passed)

    def _record_evaluations(self, log: "Log") -> None:
        run, resumed = log.evaluations, self._session.start.step
        if run is None:
            return
        for k, step in enumerate(run.steps.tolist()):
            if step in self._recorded or 0 < step < resumed:
                continue
            spent = self._spent(step) if step else Compute()
            self._session.reporter.record(record_of(run, k, spent, time.time()))
            self._recorded.add(step)

    def _require_plausible(self, log: "Log") -> None:
        """Raise TrainerError for a log that cannot be true of this run."""
        planned, last = int(str(self._values["T"])), log.last_step
        if self._trainer.names("T") and last > planned:
            raise TrainerError(f"its log is at step {last}, and it was asked for {planned}")
        if not len(log.tokens):
            return
        if (np.diff(log.tokens[log.steps > self._session.start.step]) < 0).any():
            raise TrainerError(
                "the tokens of its log fall: they are those so far, or "
                "trainer.columns={per_step:true} says that each row has its own"
            )
        size = self._spec.completions_per_step
        if log.tokens[-1] < last * size:
            raise TrainerError(
                f"its log has {log.tokens[-1]:,.0f} tokens at step {last}, fewer than the "
                f"{last * size:,} rollouts of {last} steps of n x B = {size}"
            )

    def _keep_checkpoints(self, trained: int) -> None:
        """Note the command's own checkpoints, up to step `trained`, from which a later attempt goes
        on."""
        pattern = self._trainer.checkpoints
        if pattern is None:
            return
        attempt, health = self._session.attempt, self._session.monitor.to_json()
        head, _, tail = pattern.partition(f"{{{STEP}}}")
        numbered = re.compile(re.escape(str(self._directory / head)) + r"(\d+)" + re.escape(tail))
        for path in self._directory.glob(f"{head}*{tail}"):
            match = numbered.fullmatch(str(path))
            step = 0 if match is None else int(match[1])
            checkpoint = attempt.run.attempt_checkpoints(attempt.number) / f"checkpoint-{step}"
            if self._session.start.step < step <= trained and not checkpoint.exists():
                checkpoint.mkdir(parents=True)
                # Of `checkpoint-3/trainer_state.json` the checkpoint is `checkpoint-3`.
                foreign = str([path, *path.parents][tail.count("/")])
                complete(
                    checkpoint, compute=asdict(self._spent(step)), health=health, foreign=foreign
                )

    def _judge(self, status: int | None) -> None:
        """Raise TrainerError where the command has ended, and has not done what it was to do."""
        session, schedule = self._session, self._session.schedule
        last = max(self._recorded, default=0)
        reached = self._spent(last)
        # A trainer may fail as it ends, with all that was asked of it done.
        over = last and schedule.is_over(reached)
        if over or session.stop.reason is not None or session.monitor.verdict is not None:
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


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command, and all that it started in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def compute_of(
    spec: RunSpec, step: int, tokens: float | None = None, seconds: float = 0.0
) -> Compute:
    """Return the compute behind `step` updates.

    `tokens`: of prompts and completions, as planned by default; `seconds`: of wall time.
    """
    rollouts, lengths = step * spec.completions_per_step, spec.task.lengths
    total = rollouts * (lengths.prompt + lengths.completion) if tokens is None else tokens
    # Of a rollout one token at least is sampled.
    completion = max(1.0, total / rollouts - lengths.prompt) if rollouts else 0.0
    prompts = min(total, rollouts * lengths.prompt)
    flops = rollout_flops(
        spec.model.architecture, np.array(lengths.prompt), np.array(completion), spec.passes
    )
    return Compute(
        generations=step,
        rollouts=rollouts,
        prompt_tokens=round(prompts),
        completion_tokens=round(total - prompts),
        prefill_flops=rollouts * float(flops.prefill),
        decode_flops=rollouts * float(flops.decode),
        old_policy_flops=rollouts * float(flops.old_policy),
        reference_flops=rollouts * float(flops.reference),
        training_flops=rollouts * float(flops.training),
        device_seconds=seconds * spec.devices,
    )


@dataclass(frozen=True, kw_only=True)
class Log:
    """What the log of a command says by now.

    `evaluations`: None before the first. `steps`: (rows,), ascending; `tokens`: of prompts and
    completions so far, (rows,), or (0,) where no column has them. `metrics`: each row's numbers,
    with its step.
    """

    evaluations: ForeignRun | None = None
    steps: NDArray[np.float64]
    tokens: NDArray[np.float64]
    metrics: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def last_step(self) -> int:
        """The newest step that it knows of."""
        return int(self.steps[-1]) if len(self.steps) else 0

    def tokens_at(self, step: int) -> float | None:
        """Tokens so far at a step, or None where the log has none."""
        if not len(self.tokens):
            return None
        return float(np.interp(step, np.append(0.0, self.steps), np.append(0.0, self.tokens)))


def read_log(spec: RunSpec, log: str, before: Compute, resumed: int, *, ended: bool) -> Log:
    """Return what a command has logged. Raises SettingError where that cannot be read.

    `before`: compute at step `resumed`, from which a log may count its tokens anew. `ended`:
    whether the command is over; before, a last line without an end may be half of one.
    """
    sizes = {"n": spec.num_generations, "B": spec.problems_per_batch, "seed": spec.seed}
    config = spec.trainer.columns or ImportConfig()
    shared = {name: float(size) for name, size in sizes.items()}
    config = replaced(config, columns={**(config.columns or {}), **shared})
    try:
        torn = _unended(log)
        frame = read_sources([log], config, [])
        if not ended and (torn or _unended(log)):
            frame = frame.iloc[:-1]
        evaluations = _evaluations(frame, config)
        names, asked = [str(name) for name in frame.columns], columns_of(config)
        step = asked["step"] or guess_column("step", names)
        if not isinstance(step, str):
            raise SettingError("import.columns.step", step, "names the column of optimiser steps")
    except SettingError as refused:
        # As this user calls them.
        raise SettingError(
            refused.setting.replace("import.files", "trainer.log").replace(
                "import.", "trainer.columns."
            ),
            refused.value,
            refused.rule,
            refused.nearest.replace("import.", "trainer.columns."),
        ) from None
    counted = asked["compute"] or first_of(USUAL_COMPUTE["tokens"], names)
    known = [name for name in (step, counted) if isinstance(name, str)]
    numbers = frame.assign(**{name: _numbers(frame, name) for name in known})
    numbers = numbers.select_dtypes("number")
    rows = numbers.dropna(subset=known)
    rows = rows[valid_rows(rows[step].to_numpy())].sort_values(step, kind="stable")
    rows = rows.drop_duplicates(step, keep="last")
    tokens = np.empty(0)
    if isinstance(counted, str):
        tokens = (rows[counted].cumsum() if config.per_step else rows[counted]).to_numpy()
        own = (rows[step] > resumed).to_numpy()
        if own.any() and tokens[own][0] < before.tokens:
            tokens = np.where(own, tokens + before.tokens, tokens)
    metrics = [
        (int(row[step]), {str(k): float(v) for k, v in row.items() if k != step and v == v})
        for row in numbers.dropna(subset=step).to_dict("records")
    ]
    return Log(evaluations=evaluations, steps=rows[step].to_numpy(), tokens=tokens, metrics=metrics)


def _unended(log: str) -> bool:
    """Whether a file's last line has no end yet."""
    path = Path(log)
    return path.is_file() and path.read_bytes()[-1:] not in (b"", b"\n")


def _evaluations(frame: "pandas.DataFrame", config: ImportConfig) -> ForeignRun | None:
    """The run's held-out evaluations; None before the first. The training reward is none."""
    try:
        columns = find_columns(frame, config, "rollouts")
    except SettingError as refused:
        if refused.setting != "import.columns.reward":
            raise
        return None
    scored = columns.found.get("successes", columns.found.get("reward"))
    guessed = scored == "reward" and "reward" in columns.guessed
    if not isinstance(scored, str) or guessed or not frame[scored].notna().any():
        return None
    # One run, whatever the file is called, and compute is worked out here.
    own = {name: given for name, given in columns.found.items() if name not in ("run", "compute")}
    (run,), _ = read_runs(frame, replace(columns, found=own), config, least=1)
    return run


def _numbers(frame: "pandas.DataFrame", column: str) -> "pandas.Series[float]":
    import pandas

    return pandas.to_numeric(frame[column], errors="coerce").astype(np.float64)
