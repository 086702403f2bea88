"""Whether the disk has room for sweeps' checkpoints, before anything is launched."""

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
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study
from isosweep.store.attempts import newest
from isosweep.store.checkpoints import complete_bytes
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.words.numbers import size


def require_disk(studies: Sequence[Study], paths: SweepPaths, places: int) -> None:
    """Raise SettingError where the checkpoints that are to come of the sweeps, whose runs are in
    one directory, find no room.

    With `places` runs at once. A run counts once, by what it takes beyond what it has there
    already; one that has ended takes no more.
    """
    further: dict[str, tuple[float, float]] = {}
    largest = 0.0
    for study in studies:
        for run in study.plan.runs:
            files = paths.run(run.run_id)
            unit, stop = study.plan.budget_unit, study.config.health.stop
            if not run_standing(run, newest(files), unit, stop).ended:
                more = _further(study, files, run)
                further[run.run_id] = max(more, further.get(run.run_id, more))
                largest = max(largest, run.checkpoint_bytes)
    free = free_bytes(paths.runs)
    places = min(places, len(further))
    peak = peak_bytes([RunBytes(running=r, kept=k) for r, k in further.values()], places)
    if peak <= free:
        return
    keep = "/".join(dict.fromkeys(study.config.checkpoint.keep for study in studies))
    rule = (
        f"has {size(free)} free, and the checkpoints of {len(further)} runs, {places} at once, "
        f"take up to {size(peak)} more (checkpoint.keep={keep}: {size(largest)} each)"
    )
    nearest = f"sweeps_dir=DIRECTORY on a disk with {size(peak)} free"
    raise SettingError("sweeps_dir", paths.runs.parent, rule, nearest)


def _further(study: Study, files: RunPaths, run: PlannedRun) -> tuple[float, float]:
    """Bytes that the run's checkpoints take beyond those there, while it runs and after its end."""
    config, saving = study.variant_of(run).config, study.config.checkpoint
    one = checkpoint_bytes(config.model.architecture, config.recipe, config.hardware)
    count = written(one, saving, seconds=predicted(run.seconds), num_steps=run.num_steps)
    there = complete_bytes(files)
    # The one that it goes on from stays until the next is complete.
    takes = run_bytes(one, saving, count + (there > 0))
    return max(0.0, takes.running - there), max(0.0, takes.kept - there)


def free_bytes(path: Path) -> int:
    """Bytes free on the disk of `path`, or of the nearest directory above it that is there."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(there).free
