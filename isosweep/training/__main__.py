"""What a job executes: an attempt at a run.

    python -m isosweep.training RUN_DIRECTORY/attempts/3.json
    python -m isosweep.training JOBS/INDEX        (a link to the logs of an attempt)
    python -m isosweep.training RUN_DIRECTORY     (its newest attempt)

Nothing heavy is imported before it is known that there is something to do.
"""

import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.errors import IsosweepError, RecordError, RefusedError, SettingError
from isosweep.job import Place, Task, requeue, task_of
from isosweep.store.attempts import (
    Attempt,
    OvertakenError,
    Process,
    Status,
    begin,
    highest,
    newest,
    read,
)
from isosweep.store.paths import LOGS, RunPaths
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.training.nodes import Nodes
    from isosweep.training.worker import TrainRun


def main(argv: list[str], stop: StopRequest | None = None) -> int:
    """Work on the attempt that `argv` names; the exit status: 1 if its run failed, 2 for what is
    none, else 0."""
    forget_ranks_and_precision(os.environ)
    stop = stop or StopRequest()
    stop.install()
    try:
        attempt = _find(argv)
        reason = _nothing_to_do(attempt)
        if reason is not None:
            if attempt.live and attempt.cancel is not None:
                attempt.end(Status.CANCELLED, reason)
            sys.stdout.write(f"isosweep: {_named(attempt)}: {reason}: nothing to do\n")
            return 0
        return _execute(attempt, stop)
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


def _execute(attempt: Attempt, stop: StopRequest) -> int:
    task = task_of(attempt.launcher)
    leads = task.place.leads
    # Heavier imports, from here on.
    from isosweep.training.worker import TrainRun, run_attempt, trusts

    document = {**attempt.job, "trust": trusts(attempt)}
    document["requeue"] = task.requeues and document.get("requeue", False)
    train = TrainRun.from_json({**document, "run_dir": str(attempt.run.root)})
    start = f"{attempt.batch} {attempt.index} {task.start}"
    if not leads:
        _follow(attempt, train, task.place, start, stop)
        return 0
    stop.scheduled = task.requeues and task.job_id is not None
    own = begin(replace(attempt, job=document), task.job_id or _own_id(attempt))
    try:
        status = run_attempt(own, train, stop, task.place, start)
    except BaseException as error:
        # What names its file is plain enough; of another error of the system only its place is.
        named = isinstance(error, OSError) and error.filename is not None
        if not named and not isinstance(error, IsosweepError):
            traceback.print_exc()
        refused = isinstance(error, SettingError | RefusedError)
        how = Status.REFUSED if refused else Status.FAILED
        reason = str(error) if refused else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"isosweep: {_named(own)} {how}: {reason}\n")
        _end(own, how, reason)
        return 1
    if status is Status.QUEUED and stop.requeued:
        _start_again(own, task, stop)
    return 0


def _follow(attempt: Attempt, job: "TrainRun", place: Place, start: str, stop: StopRequest) -> None:
    """What a node does that does not lead: run its processes of the attempt whose first node is of
    the same `start` of the same job; once: who has had a part in one has none in the next.

    Raises NodesError where that does not begin in time, or cannot go on.
    """
    from isosweep.training.worker import ranks_of, require_even, spec_of

    # The first node decides what a second signal means.
    stop.patient = True
    nodes = _joined(attempt, place, start, stop)
    if nodes is None:
        return
    statuses = [1]
    try:
        spec = spec_of(job.run, trust=job.trust)
        require_even(spec, place)
        statuses = ranks_of(nodes, spec.devices, trust=job.trust).run(lambda: nodes.asked(stop))
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
    finally:
        nodes.say(ended=tuple(statuses))


def _joined(attempt: Attempt, place: Place, start: str, stop: StopRequest) -> "Nodes | None":
    """The nodes of the attempt; None, with a line that says why, where there is none to join."""
    from isosweep.training.nodes import LOOK_S, MEET_S, Nodes, NodesError, PlaceTakenError

    named, said = f"node {place.node} of {place.nodes}", ""
    deadline = time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        why = _nothing_to_do(attempt) or stop.reason
        if why is not None:
            sys.stderr.write(f"{named} leaves before it has joined an attempt: {why}\n")
            return None
        try:
            last = newest(attempt.run) or attempt
            if (nodes := Nodes.join(last, place, start)) is not None:
                return nodes
        except PlaceTakenError as taken:
            # Once an attempt.
            if said != (said := str(taken)):
                sys.stderr.write(f"{said}. This one waits for another attempt\n")
        time.sleep(LOOK_S)
    raise NodesError(said or f"{named}: the first node has not begun within {MEET_S:g} s")


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
