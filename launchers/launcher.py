"""What the queue asks of a launcher, and what it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from isosweep.plan.cells import PlannedRun
from isosweep.store.submissions import Job, LauncherName, Outcome, Submission, SubmissionState


@dataclass(frozen=True, kw_only=True)
class Order:
    """A submission to be started: its file is there, and its job is to execute

        python -m isosweep.training SUBMISSION.json

    with its output in `logs`, which exists. `run` has what the plan says of it; `slot` numbers its
    place on this machine, 0 where there are no places.
    """

    submission: Submission
    run: PlannedRun
    logs: Path
    slot: int


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A scheduler did not take a submission; `reason` is in its words.

    `passing`: it may take it later (it is down, slow, or at a limit). `unknown`: it gave no answer,
    so the job may be there all the same: it is looked for by the batch before another is made.
    `smaller`: fewer tasks of its array might be taken now.
    """

    reason: str
    passing: bool
    unknown: bool = False
    smaller: bool = False


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What is known of a submission's job at the moment.

    `unknown`: the scheduler gave no answer, and nothing may be concluded. `reason`: why it waits
    or how it ended, in the scheduler's words. `outcome`: of a job that is gone, what its end is to
    be called if its worker has not said so: `lost` and `stuck` are tried again, `failed` counts as
    a try, `cancelled` is not tried again. `job`: its id, where the submission has none yet.
    """

    status: Literal["pending", "running", "gone", "unknown"]
    reason: str = ""
    outcome: Outcome = "lost"
    job: Job | None = None


class Launcher(Protocol):
    """Starts runs somewhere.

    `detaches`: runs go on when this process leaves. `poll_s`: seconds between two calls of
    `observe`, at least. `places`: one place a run, so that a place is free only once its job is
    gone; False where a scheduler sees to that.
    """

    name: LauncherName
    detaches: bool
    places: bool
    poll_s: float

    def batches(self, runs: Sequence[PlannedRun]) -> list[list[int]]:
        """Which of `runs`, by position, are sent to the scheduler together, by default each by
        itself: a job array each. Every position once, in an order that keeps theirs.
        """
        return [[place] for place in range(len(runs))]

    def devices(self, slot: int) -> tuple[str, ...]:
        """GPUs of this machine, by name, that the run in place `slot` is given; none elsewhere."""
        return ()

    def submit(self, orders: Sequence[Order]) -> list[Job | Refused]:
        """Start the jobs of `orders`, in their order; what came of each.

        Orders of one batch come in one call, those that were refused again as well; some of them
        may be missing then (cancelled meanwhile). Raises nothing that a scheduler can cause: it is
        answered as Refused.
        """

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What is known of their jobs, by one question to the scheduler for all of them."""

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        """Ask their jobs to write a checkpoint and leave, or end them (`kill`).

        What went wrong, in the scheduler's words; None where nothing did. Whether they have left
        is for `observe` to say.
        """


def observe_process(state: SubmissionState) -> Observed:
    """Whether the process that a job is lives; gone where its submitter ended before making it."""
    process = state.job.process if state.job else None
    if process is None:
        return Observed(status="gone")
    alive = process.alive()
    return Observed(status="unknown" if alive is None else "running" if alive else "gone")
