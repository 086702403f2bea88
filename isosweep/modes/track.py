"""The tracker of a sweep: while it is followed, and to bring its store up to date afterwards."""

from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.tracking import TrackingConfig
from isosweep.modes.directory import StoredSweep
from isosweep.modes.overview import sweep_overview
from isosweep.modes.terminal import say, typed
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.tracking.background import BackgroundTracker
    from isosweep.tracking.points import FinalStatus


def catch_up(sweep: StoredSweep, console: Console) -> None:
    """Bring the store up to what the files say, statuses, figures and report included."""
    close_tracker(track(sweep, console), sweep.paths, None, console)


def close_tracker(
    tracker: "BackgroundTracker | None",
    paths: SweepPaths,
    status: "FinalStatus | None",
    console: Console,
) -> None:
    """Sync a last time, with what the analysis drew, and say where it is seen; `status`: as
    `BackgroundTracker.close`."""
    if tracker is None:
        return
    figures = sorted(p for p in paths.analysis.rglob("*.png") if not p.stem.endswith("-dark"))
    tracker.close(status, figures, paths.report if paths.report.exists() else None)
    where = tracker.link() or f"python -m isosweep mode=dashboard {typed('sweep_dir', paths.root)}"
    say(console, f"dashboard: {where}")


def track(sweep: StoredSweep, console: Console) -> "BackgroundTracker | None":
    """A thread that keeps the store of `config.tracking` equal to the sweep's files; None: there is
    none."""
    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    if config.tracking.name == "none":
        return None
    from isosweep.tracking.background import JOIN_RUN_S, JOIN_S, BackgroundTracker
    from isosweep.tracking.mlflow import MlflowTracker

    parameters: dict[str, str | float | int] = {"budget_unit": config.budget_unit}
    if sweep.kind == "planned":
        parameters |= _trained(config)
    return BackgroundTracker(
        MlflowTracker(
            paths,
            plan,
            parameters,
            config.tracking,
            paths.runs.parent,
            config.health,
            overview=lambda: sweep_overview(sweep),
        ),
        config.tracking.interval_s,
        lambda line: say(console, line, style="yellow"),
        remedy=f"python -m isosweep mode=analyse {typed('sweep_dir', paths.root)}",
        join_s=JOIN_S + JOIN_RUN_S * len(plan.runs),
    )


def _trained(config: SweepConfig) -> dict[str, str | float | int]:
    """How the runs were trained, as far as they share it."""
    return {
        "model": config.model.name,
        "task": config.task.name,
        "recipe": config.recipe.name,
        "learning_rate": config.recipe.learning_rate,
        "hardware": config.hardware.name,
        "train_problems": config.task.num_train_problems,
        "held_out_problems": config.task.num_eval_problems,
        "samples_per_problem": config.evaluation.samples_per_problem,
    }


def asked_tracking(asked: SweepConfig, stored: SweepConfig) -> TrackingConfig:
    """The stored sweep's, unless this command says `tracking=none`, or where the store is now."""
    elsewhere = asked.tracking.name == "none" or asked.tracking.uri is not None
    return asked.tracking if elsewhere else stored.tracking
