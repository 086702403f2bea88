"""How far runs are: the one answer that the queue, the terminal and MLflow all ask for."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from isosweep.compute import BudgetUnit
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunView, view_run
from isosweep.store.submissions import Outcome, SubmissionState


class Standing(StrEnum):
    """How far a run is, with respect to the last milestone that a plan reads it at.

    QUEUED: it was submitted, or requeued, and no attempt of it runs. INTERRUPTED: it left a
    checkpoint, or its process ended without a word; it goes on from there.
    TO_EXTEND: it ended as it should, by a smaller budget or a rule that ends no run any more.
    STOPPED: the same, where a search that has ended asks no more of it; files of runs do not say
    so, and who looks at the search does.
    """

    NOT_BEGUN = "not begun"
    QUEUED = "queued"
    RUNNING = "running"
    TO_EXTEND = "to extend"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIVERGED = "diverged"
    DONE = "done"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to train."""
        return self in (Standing.DONE, Standing.DIVERGED)


def run_standing(
    run: PlannedRun, view: RunView, unit: BudgetUnit, stop: Collection[str]
) -> Standing:
    """Where `run` is, by what its newest attempt and its newest submission say.

    `stop`: health rules that end a run; it has diverged for good if one of them ended it, or if it
    had come far enough before. Whether a job still lives is not asked of its scheduler.
    """
    state, submission = view.state, view.submission
    if state is not None:
        reached = state.compute.has_reached(run.milestones[-1], unit)
        if state.status == "diverged" and (reached or state.diverged_by in stop):
            return Standing.DIVERGED
        if state.status == "finished" and reached:
            return Standing.DONE
    if submission is not None and submission.live and not submission.gone:
        current = view.current
        running = current is not None and current.status == "running"
        return Standing.RUNNING if running else Standing.QUEUED
    if submission is not None and (submission.cancel or _outcome(submission) == "cancelled"):
        return Standing.CANCELLED
    if submission is not None and _outcome(submission) in ("refused", "failed", "stuck"):
        return Standing.FAILED
    if state is None:
        return Standing.INTERRUPTED if submission else Standing.NOT_BEGUN
    return _left(state)


def _outcome(submission: SubmissionState) -> Outcome | None:
    return submission.end.outcome if submission.end else None


def _left(state: RunState) -> Standing:
    """Where a run is that nobody works on, by what its last attempt left."""
    match state.status:
        case "finished" | "diverged":
            return Standing.TO_EXTEND
        case "running":
            return Standing.RUNNING if state.process.alive() else Standing.INTERRUPTED
        case "interrupted":
            return Standing.INTERRUPTED
        case "failed":
            return Standing.FAILED
        case "cancelled":
            return Standing.CANCELLED
        case _:
            assert_never(state.status)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many runs stand how: what every surface counts by, and the words of it.

    `collapsed`: of those done, the ones that the sweep's analysis found to have lost for good what
    they had gained.
    """

    counts: dict[Standing, int]
    collapsed: int = 0

    @classmethod
    def of(cls, runs: Mapping[str, Standing], collapsed: Collection[str] = ()) -> "Tally":
        """The tally of `runs`, by run id; `collapsed`: ids of runs."""
        counts = Counter(runs.values())
        fallen = sum(runs.get(run) is Standing.DONE for run in collapsed)
        return cls(counts={each: counts[each] for each in Standing}, collapsed=fallen)

    def words(self, always: Collection[Standing] = ()) -> str:
        """Such as "2 failed, 16 done, 3 of them collapsed"; with those of `always` in any case."""
        shown = [f"{n} {each}" for each, n in self.counts.items() if n or each in always]
        # Those that are done come last.
        fallen = [f"{self.collapsed} of them collapsed"] if self.collapsed else []
        return ", ".join([*shown, *fallen]) or "none"


@dataclass(frozen=True, kw_only=True)
class PlanStanding:
    """Where every run of a plan is, by run id.

    `left`: share of the plan's compute, in its budget's unit, that is still to be spent.
    `collapsed`: ids of runs, as in `Tally`.
    """

    runs: dict[str, Standing]
    left: float
    collapsed: Collection[str] = ()

    def described(self) -> str:
        """One line for the terminal; always with what is not begun, to extend and done."""
        always = (Standing.NOT_BEGUN, Standing.TO_EXTEND, Standing.DONE)
        counted = Tally.of(self.runs, self.collapsed).words(always)
        return f"runs: {counted}; {self.left:.0%} of their compute is still to be spent"


def standing(plan: Plan, paths: Callable[[str], RunPaths], stop: Collection[str]) -> PlanStanding:
    """Compare the plan with the runs on disk, whichever sweep made them; `stop` as above."""
    runs: dict[str, Standing] = {}
    spent = total = 0.0
    for run in plan.runs:
        view = view_run(paths(run.run_id))
        runs[run.run_id] = run_standing(run, view, plan.budget_unit, stop)
        total += run.milestones[-1]
        spent += compute_behind(run, view, plan.budget_unit, stop)
    return PlanStanding(runs=runs, left=1 - spent / total if total else 0.0)


def compute_behind(
    run: PlannedRun, view: RunView, unit: BudgetUnit, stop: Collection[str]
) -> float:
    """Compute that the run has behind it, in `unit`: all of it where nothing is left to train."""
    if view.state is None:
        return 0.0
    last = run.milestones[-1]
    ended = run_standing(run, view, unit, stop).ended
    return last if ended else min(view.state.compute.spent(unit), last)
