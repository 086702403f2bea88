"""What a run is called in a view, and the params, tags and numbers that say which it is."""

from isosweep.config.health import HealthConfig
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.plan.tally import Standing
from isosweep.store.paths import SweepPaths
from isosweep.store.state import RunView
from isosweep.store.warnings import not_judged
from isosweep.tracking.points import RunReading
from isosweep.tracking.view import varies_in_batch

RUN_TAG = "isosweep.run_id"
# The tag `status` of a run that is done and lost what it had gained, by the sweep's analysis.
COLLAPSED = "collapsed"
# mlflow.utils.mlflow_tags: what the MLflow UI nests runs by.
PARENT_TAG = "mlflow.parentRunId"


def run_name(planned: PlannedRun, plan: Plan) -> str:
    """n, B where the plan has several, seed and values of `grid.axes`: n=008 B=64 seed=0.

    Numbers are as wide as the plan's largest, so that names sorted as text are sorted by them.
    """
    shown = {"n": "num_generations", "B": "problems_per_batch", "seed": "seed"}
    if not varies_in_batch(plan):
        del shown["B"]
    largest = {name: max(getattr(run, name) for run in plan.runs) for name in shown.values()}
    numbers = [
        f"{key}={getattr(planned, name):0{len(str(largest[name]))}d}" for key, name in shown.items()
    ]
    return " ".join([*numbers, *filter(None, [variant_label(planned.axes)])])


def sweep_run_name(name: str) -> str:
    """What the sweep's own run is called, which then comes before the others by name."""
    return f"all of {name}"


def sweep_name(paths: SweepPaths, plan: Plan) -> str:
    """What tells a sweep from others in one store."""
    return f"{paths.root.name}@{plan.plan_id}"


def own_params(planned: PlannedRun) -> dict[str, str | float | int]:
    """What tells the run from the sweep's others; the numbers of it are metrics too."""
    return {
        "n": planned.num_generations,
        "B": planned.problems_per_batch,
        "T": planned.num_steps,
        "seed": planned.seed,
    }


def fixed_tags(planned: PlannedRun) -> dict[str, str]:
    """Tags that a run is made with."""
    return {key: str(value) for key, value in own_params(planned).items()}


def changing_tags(
    view: RunView,
    standing: Standing,
    reading: RunReading,
    known: dict[str, str],
    health: HealthConfig,
    *,
    collapsed: bool,
) -> dict[str, str]:
    """Tags that say how far the run is; `known`: those that it has, `health`: what judges it."""
    reached = ",".join(f"{budget:g}" for budget in reading.reached)
    texts = {"reason": view.reason, "warnings": reading.warnings, "unreadable": reading.fault}
    texts["diverged_by"] = (view.state.diverged_by if view.state else None) or ""
    if standing.ended and view.state and not health.judges(view.state.compute.generations):
        texts["health"] = not_judged(health.window)
    else:
        texts["health"] = ""
    # What is no longer so is emptied; what never was is not sent.
    said = {key: text for key, text in texts.items() if text or key in known}
    return {
        "status": COLLAPSED if collapsed else str(standing),
        "budgets_reached": reached,
        **said,
    }
