"""What a node does that does not lead: it joins the attempt that the first node makes."""

import sys
import time

from isosweep.job import Place
from isosweep.store.claims import highest
from isosweep.store.state import Attempt, OvertakenError
from isosweep.store.submissions import Submission, read_submission
from isosweep.training.nodes import LOOK_S, MEET_S, Nodes, NodesError, PlaceTakenError
from isosweep.training.stopping import StopRequest
from isosweep.training.worker import ranks_of, require_even, spec_of, trusts


def follow_attempt(submission: Submission, place: Place, start: str, stop: StopRequest) -> None:
    """Run this node's processes of the attempt at `submission` whose first node is of the same
    `start` of the same job; once: who has had a part in one has none in the next.

    Raises NodesError where that does not begin in time, or cannot go on.
    """
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


def _joined(submission: Submission, place: Place, start: str, stop: StopRequest) -> Nodes | None:
    """The nodes of the attempt; None, with a line that says why, where there is none to join."""
    run, named, said = submission.run, f"node {place.node} of {place.nodes}", ""
    deadline = time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        if (why := _nothing_to_join(submission, stop)) is not None:
            sys.stderr.write(f"{named} leaves before it has joined an attempt: {why}\n")
            return None
        number = highest(run.attempts)
        try:
            nodes = Nodes.join(Attempt(run, number), place, start) if number else None
        except PlaceTakenError as taken:
            # Once an attempt.
            if said != (said := str(taken)):
                sys.stderr.write(f"{said}. This one waits for another attempt\n")
            nodes = None
        if nodes is not None:
            return nodes
        time.sleep(LOOK_S)
    raise NodesError(said or f"{named}: the first node has not begun within {MEET_S:g} s")


def _nothing_to_join(submission: Submission, stop: StopRequest) -> str | None:
    """Why this node is not needed; None while it may be."""
    end = read_submission(submission.run, submission.number).end
    if end is not None:
        return f"submission {submission.number} is over ({end.outcome})"
    if (newest := highest(submission.run.submissions)) > submission.number:
        return f"submission {newest} owns the run now"
    return stop.reason
