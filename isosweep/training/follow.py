"""What a node does that does not lead: it joins the attempt that the first node makes."""

import sys
import time

from isosweep.job import Place
from isosweep.store.claims import highest
from isosweep.store.state import Attempt, OvertakenError
from isosweep.store.submissions import Submission, read_submission
from isosweep.training.nodes import LOOK_S, MEET_S, Nodes, NodesError
from isosweep.training.stopping import StopRequest
from isosweep.training.worker import ranks_of, require_even, spec_of


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
        spec = spec_of(submission.run)
        require_even(spec, place)
        statuses = ranks_of(nodes, spec.devices).run(lambda: nodes.asked(stop))
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
    finally:
        nodes.say(ended=tuple(statuses))


def _joined(submission: Submission, place: Place, start: str, stop: StopRequest) -> Nodes | None:
    """The nodes of the attempt; None where the submission ends before it begins."""
    run = submission.run
    deadline = time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        over = read_submission(run, submission.number).end is not None
        if over or highest(run.submissions) > submission.number or stop.reason is not None:
            return None
        number = highest(run.attempts)
        nodes = Nodes.join(Attempt(run, number), place, start) if number else None
        if nodes is not None:
            return nodes
        time.sleep(LOOK_S)
    named = f"node {place.node} of {place.nodes}"
    raise NodesError(f"{named}: the first node has not begun within {MEET_S:g} s")
