"""Whether the disk has room for a sweep's checkpoints, before anything is launched."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from isosweep.costs.checkpoints import (
    RunBytes,
    checkpoint_bytes,
    peak_bytes,
    run_bytes,
    written,
)
from isosweep.errors import SettingError
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study
from isosweep.store.paths import SweepPaths
from isosweep.store.state import view_run
from isosweep.words.numbers import size


def require_disk(study: Study, paths: SweepPaths, places: int) -> None:
    """Raise SettingError where the checkpoints of the runs to come find no room.

    With `places` runs at once; runs that have ended take what they took.
    """
    runs = [run for run in study.plan.runs if not _ended(study, paths, run)]
    free = shutil.disk_usage(_existing(paths.runs)).free
    places = min(places, len(runs))
    peak = peak_bytes(_takes(study, runs), places)
    if peak <= free:
        return
    keep, each = study.config.checkpoint.keep, max(run.checkpoint_bytes for run in runs)
    rule = (
        f"has {size(free)} free, and the checkpoints of {len(runs)} runs, {places} at once, take "
        f"up to {size(peak)} (checkpoint.keep={keep}: {size(each)} each)"
    )
    nearest = f"sweeps_dir=DIRECTORY on a disk with {size(peak)} free"
    raise SettingError("sweeps_dir", paths.runs.parent, rule, nearest)


def _takes(study: Study, runs: Sequence[PlannedRun]) -> list[RunBytes]:
    """Bytes of the checkpoints of each of `runs`."""
    saving, takes = study.config.checkpoint, []
    for run in runs:
        config = study.variant_of(run).config
        one = checkpoint_bytes(config.model.architecture, config.recipe, config.hardware)
        count = written(one, saving, seconds=run.seconds, num_steps=run.num_steps)
        takes.append(run_bytes(one, saving, count))
    return takes


def _ended(study: Study, paths: SweepPaths, run: PlannedRun) -> bool:
    view = view_run(paths.run(run.run_id))
    return run_standing(run, view, study.plan.budget_unit, study.config.health.stop).ended


def _existing(path: Path) -> Path:
    """`path`, or the nearest directory above it that is there."""
    return next(parent for parent in (path, *path.parents) if parent.exists())
