"""Every variant of a config, its problems chosen by difficulty."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.measurement import complete_measurement, is_measured
from isosweep.difficulty.selection import Selection, select
from isosweep.tasks import ProblemSets, problem_sets


@dataclass(frozen=True, kw_only=True)
class ChosenVariant(Variant):
    """A variant whose config names its problems; `selection`: those chosen by difficulty.

    `unmeasured`: they are still to be chosen, and there may be too few.
    """

    selection: Selection | None = None
    unmeasured: bool = False

    @property
    def problems(self) -> ProblemSets:
        """Problems to train on and to evaluate on.

        Raises SettingError where they cannot be drawn: too few, unreadable, or a broken source.
        """
        if self.selection is not None:
            return self.selection.sets
        return problem_sets(self.config.task)


def choose_variants(config: SweepConfig, *, measured: bool = True) -> tuple[ChosenVariant, ...]:
    """Every combination of `grid.axes`, in the order given; the config itself without axes.

    Where a task chooses its problems by difficulty, they are chosen, and the task has their hash.
    Raises SettingError where they have not been measured, or are too few, and as `combinations`;
    unless they need not be `measured`: then the variant is planned as if there were enough.
    """
    sweeps = Path(config.sweeps_dir).absolute()
    return tuple(_chosen(variant, sweeps, measured) for variant in combinations(config))


def _chosen(variant: Variant, sweeps: Path, needed: bool) -> ChosenVariant:
    config = variant.config
    if config.task.difficulty is None:
        return ChosenVariant(axes=variant.axes, config=config)
    if not needed and not is_measured(config.model, config.task, config.difficulty, sweeps):
        # Runs of another difficulty are other runs, though it is not known yet on what.
        described = json.dumps(config.task.difficulty, sort_keys=True)
        unknown = f"unmeasured-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
        config = replace(config, task=replace(config.task, selection_sha256=unknown))
        return ChosenVariant(axes=variant.axes, config=config, unmeasured=True)
    measured = complete_measurement(config.model, config.task, config.difficulty, sweeps)
    selection = select(config.task, measured)
    task = replace(config.task, selection_sha256=selection.sha256)
    return ChosenVariant(axes=variant.axes, config=replace(config, task=task), selection=selection)
