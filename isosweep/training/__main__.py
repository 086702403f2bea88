"""What a job executes: an attempt at a run.

    python -m isosweep.training RUN_DIRECTORY/attempts/3.json
    python -m isosweep.training JOBS/INDEX        (a link to the logs of an attempt)
    python -m isosweep.training RUN_DIRECTORY     (its newest attempt)

Nothing heavy is imported before it is known that there is something to do.
"""

import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from isosweep.errors import IsosweepError, RecordError
from isosweep.job import Task, requeue, task_of
from isosweep.store.attempts import (
    Attempt,
    Process,
    Status,
    begin,
    highest,
    newest,
    read,
)
from isosweep.store.paths import LOGS, RunPaths
from isosweep.training.distributed import Rank, find_rank
from isosweep.training.stopping import StopRequest


def main(argv: list[str], stop: StopRequest | None = None) -> int:
    """Work on the attempt that `argv` names; the exit status: 1 if its run failed, 2 for what is
    none, else 0."""
    stop = stop or StopRequest()
    stop.install()
    try:
        attempt = _find(argv)
        rank = find_rank(attempt.launcher)
        reason = _nothing_to_do(attempt)
        if reason is not None:
            if attempt.live and attempt.cancel is not None:
                attempt.end(Status.CANCELLED, reason)
            sys.stdout.write(f"isosweep: {_named(attempt)}: {reason}: nothing to do\n")
            # Rank 0, should it have found something to do, does not wait for another in vain.
            return 0 if rank.leads else 1
        return _execute(attempt, rank, stop)
    except IsosweepError as error:
        sys.stderr.write(f"isosweep: {error}\n")
        return error.exit_status


def _find(argv: list[str]) -> Attempt:
    """Raises RecordError for what is no attempt and no run."""
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
    if last is None or last.batch != attempt.batch:
        return f"attempt {highest(attempt.run)} owns the run now"
    if not last.live:
        return f"it is over ({last.status})"
    return None if last.cancel is None else f"cancelled by {last.cancel}"


def _named(attempt: Attempt) -> str:
    return f"attempt {attempt.number} at {attempt.run.run_id}"


def _execute(attempt: Attempt, rank: Rank, stop: StopRequest) -> int:
    task = task_of(attempt.launcher)
    # Heavier imports, from here on.
    from isosweep.training.attempt import (
        RanksError,
        TrainRun,
        failure,
        run_attempt,
        take_part,
        trusts,
    )

    document = {**attempt.job, "trust": trusts(attempt)}
    document["requeue"] = task.requeues and document.get("requeue", False)
    job = TrainRun.from_json(str(attempt.run.root), document)
    if not rank.leads:
        take_part(job, rank, stop)
        return 0
    stop.scheduled = task.requeues and task.job_id is not None
    own = attempt
    if not rank.led:
        own = begin(replace(attempt, job=document), task.job_id or _own_id(attempt))
    try:
        status = run_attempt(own, job, stop, rank)
    except BaseException as error:
        how, reason = failure(error)
        if isinstance(error, RanksError):
            # They have said what they met.
            return 1
        # What names its file is plain enough; of another error of the system only its place is.
        named = isinstance(error, OSError) and error.filename is not None
        if not named and not isinstance(error, IsosweepError):
            traceback.print_exc()
        sys.stderr.write(f"isosweep: {_named(own)} {how}: {reason}\n")
        _end(own, how, reason)
        return 1
    if status is Status.QUEUED and stop.requeued and not rank.led:
        _start_again(own, task, stop)
    # Where a later attempt owns the run the other ranks wait for this one, and are ended.
    return 1 if status is None and rank.count > 1 else 0


def _own_id(attempt: Attempt) -> str | None:
    """What a process is called that no scheduler names; Ray's name its submitter knows."""
    return None if attempt.launcher == "ray" else str(Process.this().pid)


def _start_again(own: Attempt, task: Task, stop: StopRequest) -> None:
    """Have the scheduler start the job again."""
    assert task.job_id is not None
    refused = requeue(task.job_id)
    if refused is not None:
        _end(own, Status.INTERRUPTED, f"{stop.reason}, and not requeued: {refused}")


def _end(own: Attempt, status: Status, reason: str) -> None:
    """The last act of a worker, unless it has said how it ended. A disk that takes no end leaves it
    to who follows the sweep."""
    with suppress(OSError, RecordError):
        last = read(own.run, own.number)
        if last.live:
            replace(last, status=status, reason=reason).write()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
