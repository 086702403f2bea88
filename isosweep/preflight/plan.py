"""What a plan names that is not there or pays for nothing, and room on the disk for it."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from isosweep.config.evaluation import task_places
from isosweep.config.recipe import own_loss, require_known
from isosweep.config.task import errors_at
from isosweep.costs.memory import WHILE_RUNNING, RunBytes, peak_bytes
from isosweep.difficulty.selection import ChosenVariant
from isosweep.errors import SettingError
from isosweep.plan.standing import run_standing
from isosweep.plan.study import Study
from isosweep.store.attempts import newest
from isosweep.store.checkpoints import complete_bytes
from isosweep.store.paths import SweepPaths
from isosweep.tasks.custom import own_function
from isosweep.words.numbers import size


def require_functions(variants: Sequence[ChosenVariant]) -> None:
    """Raise SettingError where the function of a task, of a mixture's part or of a set is missing,
    that of a loss, as far as it can be told without executing it, or a field of `recipe.trl`."""
    for variant in variants:
        config = variant.config
        require_known(config.recipe.trl)
        if (loss := own_loss(config.recipe.loss_type)) is not None:
            loss.require()
        for place, task in task_places(config):
            with errors_at(place):
                if task.custom is not None:
                    own_function(task.custom).require()


def require_search(study: Study) -> None:
    """Raise SettingError where search.max_compute pays for no first step, or search.sampler or
    search.pruner cannot be used; without Optuna, on a machine that only plans, nothing is known of
    the last two."""
    config, plan = study.config.search, study.plan
    if config.max_compute is not None and config.searches:
        # Variants have equal parts of it, but for samplers, which choose among them.
        parts = len(plan.axes) if config.name == "frontier" else 1
        least = min(run.milestones[0] for run in plan.runs)
        if config.max_compute < least * parts:
            shared = f", and {parts} variants have equal parts of it" if parts > 1 else ""
            rule = f"the cheapest first step takes {least:g} {plan.budget_unit}{shared}"
            nearest = f"search.max_compute={least * parts:g}"
            raise SettingError("search.max_compute", f"{config.max_compute:g}", rule, nearest)
    if config.name == "optuna" and find_spec("optuna") is not None:
        from isosweep.search.by_optuna import load

        load(config, plan)


def require_disk(study: Study, paths: SweepPaths, places: int | None) -> None:
    """Raise SettingError where the checkpoints that are to come of the sweep find no room, with
    `places` runs at once (None: all).

    A run counts by what it takes beyond what it has there already; one that has ended takes no
    more.
    """
    further: list[RunBytes] = []
    largest = 0.0
    unit, stop = study.plan.budget_unit, study.config.health.stop
    for run in study.plan.runs:
        files = paths.run(run.run_id)
        if run_standing(run, newest(files), unit, stop).ended:
            continue
        there = complete_bytes(files)
        # The one that it goes on from stays until the next is complete.
        most = max(
            run.checkpoints_peak_bytes,
            WHILE_RUNNING * run.checkpoint_bytes if there else 0.0,
        )
        kept = max(0.0, run.checkpoints_kept_bytes - there)
        further.append(RunBytes(running=max(0.0, most - there), kept=kept))
        largest = max(largest, run.checkpoint_bytes)
    free = free_bytes(paths.runs)
    places = min(places or len(further), len(further))
    peak = peak_bytes(further, places)
    if peak <= free:
        return
    rule = (
        f"has {size(free)} free, and the checkpoints of {len(further)} runs, {places} at once, "
        f"take up to {size(peak)} more (checkpoint.keep={study.config.checkpoint.keep}: "
        f"{size(largest)} each)"
    )
    nearest = f"sweeps_dir=DIRECTORY on a disk with {size(peak)} free"
    raise SettingError("sweeps_dir", paths.runs.parent, rule, nearest)


def free_bytes(path: Path) -> int:
    """Return the bytes free on the disk of `path`, or of the nearest directory above it that is
    there."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(there).free
