"""How far runs are: the one answer that the queue, the terminal and MLflow all ask for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isosweep.compute import BudgetUnit
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.checkpoints import can_go_on
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunStatus, RunView, view_run
from isosweep.store.submissions import Outcome, SubmissionState

# Where a run is that nobody works on, by what its last attempt left.
_LEFT: dict[RunStatus, Standing] = {
    "finished": Standing.TO_EXTEND,
    "diverged": Standing.TO_EXTEND,
    "interrupted": Standing.INTERRUPTED,
    "failed": Standing.FAILED,
    "cancelled": Standing.CANCELLED,
}


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
    if state.status == "running":
        return Standing.RUNNING if view.at_work else Standing.INTERRUPTED
    return _LEFT[state.status]


def _outcome(submission: SubmissionState) -> Outcome | None:
    return submission.end.outcome if submission.end else None


@dataclass(frozen=True, kw_only=True)
class PlanStanding:
    """Where every run of a plan is, by run id.

    `left`: share of the plan's compute, in its budget's unit, that is still to be spent.
    """

    runs: dict[str, Standing]
    left: float


def standing(plan: Plan, paths: Callable[[str], RunPaths], stop: Collection[str]) -> PlanStanding:
    """Compare the plan with the runs on disk, whichever sweep made them; `stop` as above."""
    runs: dict[str, Standing] = {}
    spent = total = 0.0
    for run in plan.runs:
        files = paths(run.run_id)
        view = view_run(files)
        runs[run.run_id] = run_standing(run, view, plan.budget_unit, stop)
        total += run.milestones[-1]
        spent += compute_behind(run, files, view, plan.budget_unit, stop)
    return PlanStanding(runs=runs, left=1 - spent / total if total else 0.0)


def compute_behind(
    run: PlannedRun, files: RunPaths, view: RunView, unit: BudgetUnit, stop: Collection[str]
) -> float:
    """Compute that the run has behind it, in `unit`: all of it where nothing is left to train, none
    where it is to be extended and no checkpoint is left of it."""
    if view.state is None:
        return 0.0
    last = run.milestones[-1]
    where = run_standing(run, view, unit, stop)
    if where is Standing.TO_EXTEND and not can_go_on(files):
        return 0.0
    return last if where.ended else min(view.state.compute.spent(unit), last)
