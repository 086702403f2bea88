"""What the end of a submission means for its run."""

from typing import assert_never

from isosweep.launchers.followed import Followed
from isosweep.store.submissions import Outcome, SubmissionState


def is_failure(followed: Followed, outcome: Outcome) -> bool:
    """Whether the end was a failure, of which a run may have `max_retries`."""
    match outcome:
        case "failed" | "lost" | "stuck":
            # A job that no scheduler knows of, and no worker, was never one.
            return followed.state.job is not None or followed.files.view.current is not None
        case "finished" | "interrupted":
            # It was stopped, or did less than is wanted: no failure, if it came forward.
            return followed.spent() <= followed.began_at
        case "refused" | "cancelled":
            return False
        case _:
            assert_never(outcome)


def cancelled_since(state: SubmissionState, before: SubmissionState | None) -> bool:
    """Whether the newest submission was cancelled after the queue had seen `before`."""
    if not (state.cancel or (state.end is not None and state.end.outcome == "cancelled")):
        return False
    return before is None or state != before
