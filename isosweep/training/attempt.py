"""One attempt at one training run, from the file that names it to how it ended.

    python -m isosweep.training RUN_DIRECTORY/attempts/3.json
    python -m isosweep.training JOBS/INDEX        (a link to the logs of an attempt)
    python -m isosweep.training RUN_DIRECTORY     (its newest attempt)

Nothing heavy is imported before it is known that there is something to do.
"""

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.errors import IsosweepError, RecordError, RefusedError, SettingError
from isosweep.job import requeue, scheduled_job
from isosweep.store.attempts import (
    BEGINNING,
    LOADING,
    MEETING,
    Attempt,
    Process,
    Status,
    begin,
    claim,
    highest,
    newest,
    read,
)
from isosweep.store.paths import LOGS, RunPaths
from isosweep.training.distributed import Rank, RanksError, find_rank, join, start_ranks
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.plan.spec import RunSpec
    from isosweep.store.checkpoints import ResumePoint
    from isosweep.training.generator import Generator
    from isosweep.training.loop import TrainingLoop
    from isosweep.training.session import Session, TrainRun

_ALONE = Rank()


def main(argv: list[str], stop: StopRequest | None = None) -> int:
    """Work on the attempt that `argv` names; the exit status: 1 if its run failed, 2 for what is
    none, else 0."""
    stop = stop or StopRequest()
    stop.install()
    try:
        attempt = find_attempt(argv)
        reason = _nothing_to_do(attempt)
    except IsosweepError as error:
        sys.stderr.write(f"isosweep: {error}\n")
        return error.exit_status
    rank, job_id = find_rank(attempt.launcher), scheduled_job(attempt.launcher)
    name = f"attempt {attempt.number} at {attempt.run.run_id}"
    if reason is not None:
        if attempt.live and attempt.cancel is not None:
            attempt.end(Status.CANCELLED, reason)
        sys.stdout.write(f"isosweep: {name}: {reason}: nothing to do\n")
        # Rank 0, should it have found something to do, does not wait for another in vain.
        return 0 if rank.leads else 1
    stop.scheduled = job_id is not None
    stop.requeues = stop.scheduled and attempt.job.get("requeue", False)
    try:
        attempt = replace(attempt, job={**attempt.job, "trust": trusts(attempt)})
        if not rank.leads:
            train_beside_rank_0(attempt, rank, stop)
            return 0
        if not rank.started_by_worker:
            attempt = begin(attempt, job_id or _process_id(attempt))
        status = train(attempt, stop, rank)
    except RanksError:
        # They have said what they met.
        return 1
    except BaseException as error:
        # What names its file is plain enough; of another error of the system only its place is.
        named = isinstance(error, OSError) and error.filename is not None
        if not named and not isinstance(error, IsosweepError):
            traceback.print_exc()
        sys.stderr.write(f"isosweep: {name} {': '.join(failure(error))}\n")
        return 1
    if status is Status.QUEUED and stop.requeued and job_id and not rank.started_by_worker:
        refused = requeue(job_id)
        if refused is not None:
            _end(attempt, Status.INTERRUPTED, f"{stop.reason}, and not requeued: {refused}")
    # Where a later attempt owns the run the other ranks wait for this one, and are ended.
    return 1 if status is None and rank.count > 1 else 0


def find_attempt(argv: list[str]) -> Attempt:
    """The attempt that arguments name. Raises RecordError for what is no attempt and no run."""
    if len(argv) != 1:
        raise RecordError("python -m isosweep.training takes an attempt, or a run")
    path = Path(argv[0])
    if path.is_dir():
        # A task of an array is given the logs of its attempt.
        directory = path.resolve()
        if directory.name.isdecimal() and directory.parent.name == LOGS:
            return read(RunPaths(directory.parents[1]), int(directory.name))
        attempt = newest(RunPaths(path))
        if attempt is None:
            raise RecordError(f"{path}: a run without an attempt; mode=launch makes one")
        return attempt
    if not path.stem.isdecimal() or not path.is_file():
        raise RecordError(f"{path}: not an attempt at a run")
    return read(RunPaths(path.absolute().parent.parent), int(path.stem))


def _nothing_to_do(attempt: Attempt) -> str | None:
    """Why there is nothing to do; None while there may be."""
    last = newest(attempt.run)
    # A job that was started again makes the next attempt, of the same batch.
    if last is None or last.batch != attempt.batch:
        return f"attempt {highest(attempt.run)} owns the run now"
    if not last.live:
        return f"it is over ({last.status})"
    return None if last.cancel is None else f"cancelled by {last.cancel}"


def trusts(attempt: Attempt) -> bool:
    """Whether who submitted it has said `trust=true`, in a file that nobody else may write."""
    if attempt.job.get("trust") is not True:
        return False
    from isosweep.config.trust import read_checked

    document, foreign = read_checked(attempt.path)
    return document is not None and foreign is None and document["job"].get("trust") is True


def _process_id(attempt: Attempt) -> str | None:
    """What a process is called that no scheduler names; Ray's name its submitter knows."""
    return None if attempt.launcher == "ray" else str(Process.this().pid)


def train_unsubmitted(job: "TrainRun") -> Status | None:
    """Make an attempt that nobody submitted; returns how it ended."""
    attempt = replace(claim(job.run), job=job.to_json())
    attempt.write()
    stop = StopRequest()
    stop.install()
    return train(attempt, stop)


def train(attempt: Attempt, stop: StopRequest, rank: Rank = _ALONE) -> Status | None:
    """Train until the largest milestone is reached; returns how the attempt ended, None where a
    later one owns the run.

    `rank`: 0, where a scheduler has started the others too. A run that breaks a health rule of
    `health.stop` has diverged: a result, recorded as such. A failure is recorded, and raised again.
    """
    began, session = time.monotonic(), None
    try:
        # Heavier imports, from here on.
        from isosweep.training.session import Session, TrainRun, spec_of

        job = TrainRun.from_json(str(attempt.run.root), attempt.job)
        spec = spec_of(job.run, trust=job.trust)
        # A command starts its own processes.
        ranks = spec.devices if spec.trainer.name == "trl" else 1
        if rank.count == 1 < ranks:
            return start_ranks(attempt, ranks, stop)
        if rank.count != ranks:
            raise RecordError(
                f"{spec.run_id} has {ranks} processes, and its job {rank.count} tasks"
            )
        start = _resume_point(attempt, job, spec)
        session = Session(job, attempt, spec, start, rank, stop, began)
        reporter = session.reporter
        stop.last_words = lambda reason: reporter.state(stop.ending, reason)
        with reporter.beating(stop):
            loop = train_session(session)
            # A cancelled job is sent a signal as well, and may have seen that first.
            stop.read_requests(attempt)
        status, reason = session.outcome()
        reporter.state(status, reason)
        if loop is not None and status in (Status.FINISHED, Status.DIVERGED):
            loop.tidy()
    except BaseException as error:
        with suppress(OSError):
            if (later := highest(attempt.run)) > attempt.number:
                # It may have removed what this one was writing.
                sys.stderr.write(f"{attempt.run.run_id}: attempt {later} owns the run now\n")
                return None
        _end(attempt, *failure(error), session)
        raise
    return status


def train_beside_rank_0(attempt: Attempt, rank: Rank, stop: StopRequest) -> None:
    """Train as another rank than 0, which has begun an attempt, decides and writes."""
    from isosweep.store.checkpoints import ResumePoint
    from isosweep.training.session import Session, TrainRun, spec_of

    # Rank 0 decides what a second signal means.
    began, stop.patient = time.monotonic(), True
    job = TrainRun.from_json(str(attempt.run.root), attempt.job)
    spec = spec_of(job.run, trust=job.trust)
    _import_stack(spec, rank)
    join(rank, spec.device)
    number, start = rank.agree((0, ResumePoint(0, None, None)))
    own = read(job.run, number)
    try:
        train_session(Session(job, own, spec, start, rank, stop, began))
    except BaseException as error:
        status, reason = failure(error)
        with suppress(OSError):
            own.end(status, f"rank {rank.number} ({socket.gethostname()}): {reason}")
        raise


def train_session(session: "Session") -> "TrainingLoop | None":
    """Train as far as it goes; the loop that did, None where there was none: a stop came before it
    was made, or a command trains."""
    from isosweep.models.weights import weights

    reporter, spec, rank = session.reporter, session.spec, session.rank
    reporter.doing(LOADING)
    reporter.state(Status.RUNNING)
    if spec.trainer.name == "command":
        from isosweep.training.command import CommandTrainer

        CommandTrainer(session, reporter.started(session.start)).run()
        return None
    directory = str(weights(spec.model))
    with _generator(session, directory) as generator:
        make_loop = _import_stack(spec, rank)
        if rank.count > 1 and rank.leads:
            reporter.doing(MEETING)
            join(rank, spec.device)
            rank.agree((session.attempt.number, session.start))
            reporter.doing(LOADING)
        # Several processes can only leave together: they agree on it when training begins.
        if rank.count == 1 and session.stop.before_first_step:
            return None
        loop = make_loop(session, directory, generator)
        reporter.doing(BEGINNING)
        loop.run()
        return loop


def _resume_point(attempt: Attempt, job: "TrainRun", spec: "RunSpec") -> "ResumePoint":
    """The newest checkpoint that is whole, once it may be read and the others are removed."""
    from isosweep.config.trust import require_unpickled
    from isosweep.store.checkpoints import find_resume_point, keep_only

    point = find_resume_point(job.run, attempt.number)
    if point.checkpoint is not None and spec.sharding != "ddp" and not job.trust:
        require_unpickled(point.checkpoint)
    for loss in point.losses:
        sys.stderr.write(f"{job.run.run_id}: {loss}\n")
    if point.checkpoint is not None and job.saving.keep != "all":
        # What kills left half written would add up.
        keep_only(job.run, attempt.number, [point.checkpoint])
    return point


def _import_stack(spec: "RunSpec", rank: Rank) -> "Callable[..., TrainingLoop]":
    """Import what trains, once its threads and devices are said; what makes a loop."""
    from isosweep.devices import keep_first
    from isosweep.training.session import lean_imports

    if spec.device == "cpu":
        # More threads than cores slow tiny models by an order of magnitude.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        # More of them, as a job may be given, would make transformers split each batch over them.
        keep_first(rank.per_node)
    with lean_imports():
        from isosweep.training.assembly import make_loop
    return make_loop


def _generator(session: "Session", directory: str) -> "AbstractContextManager[Generator | None]":
    """The process that samples for the run, on the device after those that train, if one does."""
    job, spec, rank = session.job, session.spec, session.rank
    if not spec.generation.overlap:
        return nullcontext()
    from isosweep.devices import device_after, showing
    from isosweep.training.generator import LOADING_S, Generator

    shown = spec.device == "cuda" and rank.leads
    environment = showing([device_after(spec.devices)]) if shown else {}
    work = {"run_dir": job.run_dir, "directory": directory, "trust": job.trust}
    # Who follows the run would end it after twice that time, and not say why.
    patience = LOADING_S if job.stuck_after_s is None else job.stuck_after_s / 2
    return closing(Generator(rank, work, environment, patience))


def failure(error: BaseException) -> tuple[Status, str]:
    """How an attempt ends that met `error`, and why."""
    if isinstance(error, SettingError | RefusedError):
        return Status.REFUSED, str(error)
    return Status.FAILED, f"{type(error).__name__}: {error}"


def _end(attempt: Attempt, status: Status, reason: str, session: "Session | None" = None) -> None:
    """Say how the attempt ended, unless that is said. A disk that is full takes no end: who follows
    the sweep finds it."""
    with suppress(OSError, RecordError):
        last = read(attempt.run, attempt.number)
        if last.live and session is not None:
            # Which says too how far it came, if it can.
            with suppress(Exception):
                session.reporter.state(status, reason)
            last = read(attempt.run, attempt.number)
        if last.live:
            replace(last, status=status, reason=reason).write()
