"""The tracker of a sweep: while it is followed, and to bring its store up to date afterwards."""

import shlex
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import TrackingConfig
from isosweep.config.sweep import SweepConfig
from isosweep.modes.overview import sweep_overview
from isosweep.modes.sweeps import StoredSweep
from isosweep.modes.terminal import say, typed
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.tracking.points import RunStatus
    from isosweep.tracking.tracker import Backend, BackgroundTracker

# How long the end of a sweep waits for the store, and for each run besides: a first sync takes
# 0.1 s a run (benchmarks/tracking.py), and with a server in between 0.3 s.
_JOIN_S, _JOIN_RUN_S = 60.0, 1.0
# Between two updates of the view.
_INTERVAL_S = 10.0


def catch_up(sweep: StoredSweep, console: Console) -> None:
    """Bring the store up to what the files say, statuses, figures and report included."""
    close_tracker(track(sweep, console), sweep, None, console)


def close_tracker(
    tracker: "BackgroundTracker | None",
    sweep: StoredSweep,
    status: "RunStatus | None",
    console: Console,
) -> None:
    """Sync a last time, with what was concluded, and say where it is seen; `status`: as
    `Tracker.finish`."""
    if tracker is None:
        return
    paths = sweep.paths
    tracker.close(status)
    if sweep.config.tracking.name == "wandb":
        seen = f"after wandb sync {shlex.quote(str(paths.root / 'wandb'))}/*run-*"
    else:
        seen = f"python -m isosweep mode=dashboard {typed('sweep', paths.root)}"
    say(console, f"dashboard: {tracker.link() or seen}")


def track(sweep: StoredSweep, console: Console) -> "BackgroundTracker | None":
    """A thread that keeps the store of `config.tracking` equal to the sweep's files; None: there is
    none."""
    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    if config.tracking.name == "none":
        return None
    from isosweep.tracking.tracker import BackgroundTracker, Tracker

    parameters: dict[str, str | float | int] = {"budget_unit": config.budget_unit}
    if sweep.kind == "planned":
        parameters |= _trained(config)
    return BackgroundTracker(
        Tracker(
            _backend(config.tracking, plan, paths),
            paths,
            plan,
            parameters,
            config.tracking.max_points,
            config.health,
            overview=lambda: sweep_overview(sweep),
            devices=config.devices_taken,
        ),
        _INTERVAL_S,
        lambda line: say(console, line, style="yellow"),
        remedy=f"python -m isosweep mode=analyse {typed('sweep', paths.root)}",
        join_s=_JOIN_S + _JOIN_RUN_S * len(plan.runs),
    )


def _backend(config: TrackingConfig, plan: Plan, paths: SweepPaths) -> "Backend":
    if config.name == "wandb":
        from isosweep.tracking.wandb import WandbBackend

        return WandbBackend(config, paths, plan)
    from isosweep.tracking.mlflow import MlflowBackend

    return MlflowBackend(config, paths, plan)


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
    """The stored sweep's, unless this command says which, or where the store is now."""
    own, other = stored.tracking, asked.tracking
    elsewhere = other.name == "none" or other.uri is not None
    if elsewhere or ("tracking" in asked.given and other.name != own.name):
        return other
    return replaced(own, offline=other.offline) if "tracking.offline" in asked.given else own
