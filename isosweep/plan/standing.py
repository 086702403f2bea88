"""How far runs are: the one answer that the queue, the terminal and MLflow all ask for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isosweep.compute import BudgetUnit
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Status, newest
from isosweep.store.checkpoints import can_go_on
from isosweep.store.paths import RunPaths

_STANDINGS = {
    Status.QUEUED: Standing.QUEUED,
    Status.RUNNING: Standing.RUNNING,
    Status.FINISHED: Standing.TO_EXTEND,
    Status.DIVERGED: Standing.TO_EXTEND,
    Status.INTERRUPTED: Standing.INTERRUPTED,
    Status.LOST: Standing.INTERRUPTED,
    Status.CANCELLED: Standing.CANCELLED,
    Status.FAILED: Standing.FAILED,
    Status.STUCK: Standing.FAILED,
    Status.REFUSED: Standing.FAILED,
}


def run_standing(
    run: PlannedRun, attempt: Attempt | None, unit: BudgetUnit, stop: Collection[str]
) -> Standing:
    """Where `run` is, by what its newest attempt says.

    `stop`: health rules that end a run; it has diverged for good if one of them ended it, or if it
    had come far enough before. Whether a job still lives is not asked of its scheduler.
    """
    if attempt is None:
        return Standing.NOT_BEGUN
    last = run.milestones[-1]
    if attempt.status is Status.DIVERGED and (
        attempt.diverged_by in stop or attempt.compute.has_reached(last, unit)
    ):
        return Standing.DIVERGED
    # All that this plan wants of it is there, whatever others want beyond.
    if attempt.finished.has_reached(last, unit):
        return Standing.DONE
    if attempt.gone:
        return Standing.INTERRUPTED
    if attempt.cancel is not None and not attempt.live:
        return Standing.CANCELLED
    return _STANDINGS[attempt.status]


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
        attempt = newest(files)
        runs[run.run_id] = run_standing(run, attempt, plan.budget_unit, stop)
        total += run.milestones[-1]
        spent += compute_behind(run, files, attempt, plan.budget_unit, stop)
    return PlanStanding(runs=runs, left=1 - spent / total if total else 0.0)


def compute_behind(
    run: PlannedRun,
    files: RunPaths,
    attempt: Attempt | None,
    unit: BudgetUnit,
    stop: Collection[str],
) -> float:
    """Compute that the run has behind it, in `unit`: all of it where nothing is left to train, none
    where it is to be extended and no checkpoint is left of it."""
    if attempt is None:
        return 0.0
    last = run.milestones[-1]
    where = run_standing(run, attempt, unit, stop)
    if where is Standing.TO_EXTEND and not can_go_on(files):
        return 0.0
    return last if where.ended else min(attempt.compute.spent(unit), last)
