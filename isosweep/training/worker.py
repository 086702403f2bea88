"""One attempt at one training run, from its newest checkpoint to its largest budget."""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isosweep.compute import BudgetUnit, Compute
from isosweep.config.health import HealthConfig
from isosweep.config.settings import read
from isosweep.difficulty.selection import load_selection
from isosweep.errors import RecordError
from isosweep.files import append_line, read_json, write_json
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import CHECKPOINT_HEALTH, RunPaths, complete_checkpoints
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_record,
    append_warning,
    read_records,
)
from isosweep.store.state import (
    HEARTBEAT_S,
    Attempt,
    OvertakenError,
    claim_attempt,
    mark,
    read_state,
)
from isosweep.store.warnings import HealthWarning
from isosweep.tasks.stored import hold_problems
from isosweep.training.health import HealthMonitor
from isosweep.training.ranks import Rank, only_rank, own_rank, run_ranks
from isosweep.training.session import ResumePoint, Session, StopRequest, find_resume_point

OVERTAKEN = "overtaken"
# Wall time between checkpoints: what a kill can cost, besides the step under way.
CHECKPOINT_INTERVAL_S = 30.0


@dataclass
class TrainRun:
    """The job that a launcher submits: train `run_dir` up to the last of `milestones`.

    submitit pickles it by reference; it holds nothing but where to read, how far to go, and what
    ends the run before that.
    """

    run_dir: str
    milestones: tuple[float, ...]
    unit: BudgetUnit
    health: HealthConfig

    def __call__(self) -> str:
        run = RunPaths(Path(self.run_dir))
        return run_attempt(run, self.milestones, self.unit, self.health)

    def checkpoint(self) -> Any:
        """submitit's hook at a timeout or preemption: go on as a new attempt."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


@contextmanager
def lean_imports() -> Iterator[None]:
    """Hides, while the training stack is imported, what it imports merely because it is there.

    TRL and transformers look for MLflow and scikit-learn, which take a second and which no worker
    uses; a task's own code finds them again afterwards.
    """
    hidden = [name for name in ("mlflow", "sklearn") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def run_attempt(
    run: RunPaths, milestones: tuple[float, ...], unit: BudgetUnit, health: HealthConfig
) -> str:
    """Train until the largest milestone is reached; returns how the attempt ended.

    A run that breaks a health rule of `health.stop` has diverged: a result, recorded as such. A
    failure is recorded in the run's state and raised again. An overtaken attempt ends quietly.
    """
    spec = _spec_of(run)
    attempt = claim_attempt(run, os.environ.get("SLURM_JOB_ID"))
    job = TrainRun(str(run.root), milestones, unit, health)
    if spec.devices > 1:
        return _lead_ranks(job, attempt, spec)
    return _attempt(job, attempt, spec, only_rank())


def _spec_of(run: RunPaths) -> RunSpec:
    document = read_json(run.spec)
    if document is None:
        raise RecordError(f"{run.spec}: no such run")
    return RunSpec.from_json(document["spec"])


def _lead_ranks(job: TrainRun, attempt: Attempt, spec: RunSpec) -> str:
    """Train in one process a device; this one passes signals on and speaks for them."""
    stop = StopRequest()
    stop.install()
    document = {**asdict(job), "attempt": attempt.number, "pid": os.getpid()}
    words = ["-m", "isosweep.training.worker", json.dumps(document)]
    statuses = run_ranks(spec.devices, words, lambda: stop.reason is not None)
    state = read_state(attempt.run)
    try:
        attempt.check()
    except OvertakenError as overtaken:
        print(overtaken, file=sys.stderr)
        return OVERTAKEN
    if any(statuses) or state is None:
        reason = f"its processes ended with status {', '.join(map(str, statuses))}"
        if state is None or state.status == "running":
            mark(attempt.run, "failed", reason)
        raise ChildProcessError(reason)
    return state.status


def main(text: str) -> None:
    """One of the processes that `_lead_ranks` starts; `text` is its job as JSON."""
    document = json.loads(text)
    job = TrainRun(
        document["run_dir"],
        tuple(document["milestones"]),
        document["unit"],
        read(HealthConfig, document["health"]),
    )
    run = RunPaths(Path(job.run_dir))
    rank = own_rank(document["pid"])
    ended = _attempt(job, Attempt(run, document["attempt"]), _spec_of(run), rank)
    if ended == OVERTAKEN:
        # The others wait for this one: they are ended as after a failure.
        sys.exit(1)


def _attempt(job: TrainRun, attempt: Attempt, spec: RunSpec, rank: Rank) -> str:
    stop = StopRequest()
    stop.install()
    if spec.device == "cpu":
        # More threads than cores slow tiny models by an order of magnitude.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    run = attempt.run
    start = find_resume_point(run, attempt.number)
    state = read_json(start.checkpoint / CHECKPOINT_HEALTH) if start.checkpoint else None
    monitor = HealthMonitor(job.health, spec.problems_per_batch, state)
    job_id = os.environ.get("SLURM_JOB_ID")
    session = Session(run, spec, attempt, job.milestones, job.unit, job_id, stop, monitor, rank)
    session.step = start.step
    spent = Compute()
    try:
        spent = _train(session, start)
        status, reason = session.outcome()
        session.report(status, spent, reason)
        if rank.leads:
            _drop_older_checkpoints(session)
    except OvertakenError as overtaken:
        print(overtaken, file=sys.stderr)
        return OVERTAKEN
    except BaseException as error:
        with suppress(OvertakenError):
            session.report("failed", _last_compute(run), f"{type(error).__name__}: {error}")
        raise
    return status


def _last_compute(run: RunPaths) -> Compute:
    records = read_records(run.records).records
    return records[-1].compute if records else Compute()


def _train(session: Session, start: ResumePoint) -> Compute:
    session.report("running", _last_compute(session.run))
    directory = weights(session.spec.model)
    # The training stack is imported here, after the thread count is set.
    with lean_imports():
        import torch

        from isosweep.training.evaluate import Evaluator
        from isosweep.training.grpo import (
            Follower,
            load_policy,
            make_stream,
            make_trainer,
            restore_progress,
            whole_policy,
        )
        from isosweep.training.ledger import Ledger
        from isosweep.training.vllm import make_sampler

    if session.spec.device == "cpu":
        torch.set_num_threads(1)
    run, spec, attempt, rank = session.run, session.spec, session.attempt, session.rank
    load_selection(run, spec.task)
    if rank.leads:
        hold_problems(run, spec.task)
    ledger, stream = Ledger(spec), make_stream(spec)
    if start.checkpoint is not None:
        restore_progress(start.checkpoint, ledger, stream)
        session.previous = ledger.spent
    if rank.leads:
        append_attempt(
            run.records,
            AttemptStart(attempt=attempt.number, parent=start.parent, resumed_step=start.step),
        )
    earlier = read_records(run.records).records
    session.recorded = {record.step for record in earlier}
    session.reward = earlier[-1].reward if earlier else None

    torch.manual_seed(spec.seed)
    model, tokenizer = load_policy(spec, str(directory))
    checkpoints = run.attempt_checkpoints(attempt.number)
    trainer = make_trainer(spec, model, tokenizer, ledger, stream, checkpoints)
    evaluator = Evaluator(
        spec,
        tokenizer,
        sampler=make_sampler(spec, trainer, tokenizer),
        rank=rank.number,
        ranks=rank.count,
    )

    def take_record(step: int, spent: Compute) -> None:
        if rank.agree(step in session.recorded):
            return
        began = time.monotonic()
        with whole_policy(trainer) as policy:
            if not rank.agree(evaluator.can_answer(policy)):
                return
            result = evaluator(policy)
        record = Record(
            step=step,
            compute=spent,
            successes=result.successes,
            samples_per_problem=spec.evaluation.samples_per_problem,
            completion_tokens=result.completion_tokens,
            unix_time=time.time(),
            seconds=time.monotonic() - began,
        )
        if rank.leads:
            attempt.check()
            append_record(run.records, attempt.number, record)
        session.recorded.add(step)
        session.reward = record.reward

    def on_step(step: int) -> tuple[bool, bool]:
        if step % spec.recipe.num_iterations:
            # Amid the updates of one generation, whose compute is counted already: a run is read
            # off, saved and ended between generations only.
            return False, False
        session.step, spent = step, ledger.spent
        if rank.agree(session.record_due(spent)):
            take_record(step, spent)
        session.previous = spent
        if time.monotonic() - session.reported > HEARTBEAT_S or step == start.step:
            session.report("running", spent)
        done = spent.has_reached(session.milestones[-1], session.unit)
        leave = done or session.stop.reason is not None
        save = step > start.step and (
            leave or time.monotonic() - session.saved > CHECKPOINT_INTERVAL_S
        )
        save, leave = rank.agree((save, leave))
        if save and rank.leads:
            attempt.check()
            session.saved = time.monotonic()
        return save, leave

    def observe(step: int, values: dict[str, float]) -> HealthWarning | None:
        for warning in session.monitor.observe(step, values):
            if rank.leads:
                append_warning(run.warnings, attempt.number, warning)
        ended: HealthWarning | None = rank.agree(session.monitor.verdict)
        return ended

    def on_metrics(step: int, values: dict[str, float]) -> tuple[bool, bool] | None:
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        line = {"attempt": attempt.number, "step": step, "time": time.time(), **finite}
        if rank.leads:
            append_line(run.metrics, line, sync=False)
        ended = observe(step, values)
        if ended is None or step % spec.recipe.num_iterations:
            return None
        take_record(step, ledger.spent)
        # Nothing can go on from numbers that are not finite.
        return ended.rule != "non_finite", True

    def on_save(checkpoint: Path) -> None:
        write_json(checkpoint / CHECKPOINT_HEALTH, session.monitor.to_json())

    trainer.add_callback(Follower(ledger, stream, on_step, on_metrics, on_save))
    done = session.monitor.verdict is not None
    if not done and not ledger.spent.has_reached(session.milestones[-1], session.unit):
        checkpoint = str(start.checkpoint) if start.checkpoint else None
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        except RuntimeError:
            # What torch raises when it is to sample from logits that are not finite, which can be
            # so before any loss is.
            if rank.count > 1 or evaluator.can_answer(trainer.model):
                raise
            if observe(session.step + 1, {"logits": math.nan}) is None:
                raise
    return ledger.spent


def _drop_older_checkpoints(session: Session) -> None:
    """Remove earlier attempts' checkpoints once this attempt has a complete one of its own."""
    number = session.attempt.number
    if complete_checkpoints(session.run.attempt_checkpoints(number)):
        for path in session.run.checkpoints.iterdir():
            if path.name.isdigit() and int(path.name) < number:
                shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
