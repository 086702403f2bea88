"""What a job executes: an attempt at the run of one submission.

    python -m isosweep.training SUBMISSION.json
    python -m isosweep.training BATCH/INDEX        (a link to the logs of a submission)
    python -m isosweep.training RUN_DIRECTORY      (its newest submission)

Nothing heavy is imported before it is known that there is something to do.
"""

import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.errors import IsosweepError, RecordError, RefusedError, SettingError
from isosweep.job import Place, Task, requeue, task_of
from isosweep.store.claims import highest
from isosweep.store.paths import LOGS, RunPaths
from isosweep.store.submissions import (
    Job,
    Outcome,
    Process,
    Submission,
    SubmissionState,
    close,
    newest_submission,
    read_submission,
    started,
)
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.training.nodes import Nodes


def main(argv: list[str], stop: StopRequest | None = None) -> int:
    """Work on the submission that `argv` names; the exit status: 1 if its run failed, 2 for what
    is no submission, else 0."""
    forget_ranks_and_precision(os.environ)
    stop = stop or StopRequest()
    stop.install()
    try:
        state = _find(argv)
        reason = _nothing_to_do(state)
        if reason is not None:
            if state.cancel is not None:
                close(state.submission, "cancelled", f"cancelled by {state.cancel}")
            sys.stdout.write(f"isosweep: {_named(state.submission)}: {reason}: nothing to do\n")
            return 0
        return _execute(state, stop)
    except IsosweepError as error:
        sys.stderr.write(f"isosweep: {error}\n")
        return error.exit_status


def _find(argv: list[str]) -> SubmissionState:
    """Raises RecordError for what is no submission or run."""
    if len(argv) != 1:
        raise RecordError("python -m isosweep.training takes a submission, or a run")
    path = Path(argv[0])
    if path.is_dir():
        # A task of an array is given the logs of its submission.
        directory = path.resolve()
        if directory.name.isdecimal() and directory.parent.name == LOGS:
            return read_submission(RunPaths(directory.parents[1]), int(directory.name))
        newest = newest_submission(RunPaths(path))
        if newest is None:
            raise RecordError(f"{path}: a run without a submission; mode=launch makes one")
        return newest
    if not path.stem.isdecimal() or not path.is_file():
        raise RecordError(f"{path}: not a submission of a run")
    return read_submission(RunPaths(path.absolute().parent.parent), int(path.stem))


def _nothing_to_do(state: SubmissionState) -> str | None:
    """Why there is nothing to do; None while there may be."""
    submission = state.submission
    newest = highest(submission.run.submissions)
    if state.end is not None:
        return f"it is over ({state.end.outcome})"
    if newest > submission.number:
        return f"submission {newest} owns the run now"
    return None if state.cancel is None else f"cancelled by {state.cancel}"


def _named(submission: Submission) -> str:
    return f"submission {submission.number} of {submission.run.run_id}"


def _execute(state: SubmissionState, stop: StopRequest) -> int:
    submission = state.submission
    task = task_of(submission.launcher)
    job = _own_job(task)
    leads = task.place.leads
    # A job that was requeued has said so before; what Ray calls it, only its submitter knows.
    if leads and state.job is None and submission.launcher != "ray":
        started(submission, job)
    if leads and not task.requeues:
        stop.last_words.append(lambda reason: close(submission, "interrupted", reason))
    # Heavier imports, from here on.
    from isosweep.store.state import known_state
    from isosweep.training.worker import Submitted, TrainRun, run_attempt, trusts

    try:
        document = {**submission.job, "run_dir": str(submission.run.root)}
        document["requeue"] = task.requeues and document.get("requeue", False)
        document["trust"] = trusts(submission)
        train = TrainRun.from_json(document)
        start = f"{submission.number} {task.start}"
        submitted = Submitted(number=submission.number, start=start)
        if not leads:
            _follow(submission, task.place, start, stop)
            return 0
        status = run_attempt(train, stop, submitted, task.place)
    except BaseException as error:
        # What names its file is plain enough; of another error of the system only its place is.
        named = isinstance(error, OSError) and error.filename is not None
        if not named and not isinstance(error, IsosweepError):
            traceback.print_exc()
        if not leads:
            raise
        refused = isinstance(error, SettingError | RefusedError)
        reason = str(error) if refused else f"{type(error).__name__}: {error}"
        _close(submission, "refused" if refused else "failed", reason)
        return 1
    left = known_state(submission.run)
    reason = (left.reason if left else None) or ""
    match status:
        case "overtaken" | "lost":
            # Of a lost node Slurm will see that it is down, and start the job again on others.
            pass
        case "finished" | "diverged":
            _close(submission, "finished", reason)
        case "cancelled":
            _close(submission, "cancelled", reason)
        case _:
            _leave_interrupted(submission, task, stop, reason)
    return 0


def _follow(submission: Submission, place: Place, start: str, stop: StopRequest) -> None:
    """What a node does that does not lead: run its processes of the attempt at `submission` whose
    first node is of the same `start` of the same job; once: who has had a part in one has none in
    the next.

    Raises NodesError where that does not begin in time, or cannot go on.
    """
    from isosweep.store.state import OvertakenError
    from isosweep.training.worker import ranks_of, require_even, spec_of, trusts

    # The first node decides what a second signal means.
    stop.patient = True
    nodes = _joined(submission, place, start, stop)
    if nodes is None:
        return
    statuses = [1]
    try:
        trust = trusts(submission)
        spec = spec_of(submission.run, trust=trust)
        require_even(spec, place)
        statuses = ranks_of(nodes, spec.devices, trust=trust).run(lambda: nodes.asked(stop))
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
    finally:
        nodes.say(ended=tuple(statuses))


def _joined(submission: Submission, place: Place, start: str, stop: StopRequest) -> "Nodes | None":
    """The nodes of the attempt; None, with a line that says why, where there is none to join."""
    from isosweep.store.state import Attempt
    from isosweep.training.nodes import LOOK_S, MEET_S, Nodes, NodesError, PlaceTakenError

    run, named, said = submission.run, f"node {place.node} of {place.nodes}", ""
    deadline = time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        why = _nothing_to_do(read_submission(run, submission.number)) or stop.reason
        if why is not None:
            sys.stderr.write(f"{named} leaves before it has joined an attempt: {why}\n")
            return None
        number = highest(run.attempts)
        try:
            if number and (nodes := Nodes.join(Attempt(run, number), place, start)) is not None:
                return nodes
        except PlaceTakenError as taken:
            # Once an attempt.
            if said != (said := str(taken)):
                sys.stderr.write(f"{said}. This one waits for another attempt\n")
        time.sleep(LOOK_S)
    raise NodesError(said or f"{named}: the first node has not begun within {MEET_S:g} s")


def _leave_interrupted(submission: Submission, task: Task, stop: StopRequest, reason: str) -> None:
    """End the submission, unless its scheduler may start its job again."""
    if not task.requeues or task.job_id is None:
        _close(submission, "interrupted", reason)
    elif stop.requeued:
        refused = requeue(task.job_id)
        if refused is not None:
            _close(submission, "interrupted", f"{reason}, and not requeued: {refused}")
    elif not stop.signals or stop.signals[0] is not signal.SIGTERM:
        _close(submission, "interrupted", reason)
    # A preemption with requeue and a plain scancel send the same signal: the scheduler knows which
    # it was.


def _own_job(task: Task) -> Job:
    """What the scheduler calls this process, or who it is."""
    if task.job_id is not None:
        return Job(job_id=task.job_id)
    process = Process.this()
    return Job(job_id=str(process.pid), process=process)


def _close(submission: Submission, outcome: Outcome, reason: str) -> None:
    """The last act of a worker. A disk that takes no end leaves it to who follows the sweep."""
    if outcome in ("failed", "refused"):
        sys.stderr.write(f"isosweep: {_named(submission)} {outcome}: {reason}\n")
    with suppress(OSError):
        close(submission, outcome, reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
