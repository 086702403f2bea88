"""Every variant of a config, its problems chosen by difficulty."""

from dataclasses import dataclass, replace
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.measurement import complete_measurement
from isosweep.difficulty.selection import Selection, select
from isosweep.tasks import ProblemSets, problem_sets


@dataclass(frozen=True, kw_only=True)
class ChosenVariant(Variant):
    """A variant whose config names its problems; `selection`: those chosen by difficulty."""

    selection: Selection | None = None

    @property
    def problems(self) -> ProblemSets:
        """Problems to train on and to evaluate on.

        Raises SettingError where they cannot be drawn: too few, unreadable, or a broken source.
        """
        if self.selection is not None:
            return self.selection.sets
        return problem_sets(self.config.task)


def choose_variants(config: SweepConfig) -> tuple[ChosenVariant, ...]:
    """Every combination of `grid.axes`, in the order given; the config itself without axes.

    Where a task chooses its problems by difficulty, they are chosen, and the task has their hash.
    Raises SettingError where they have not been measured, or are too few, and as `combinations`.
    """
    sweeps = Path(config.sweeps_dir).absolute()
    return tuple(_chosen(variant, sweeps) for variant in combinations(config))


def _chosen(variant: Variant, sweeps: Path) -> ChosenVariant:
    config = variant.config
    if config.task.difficulty is None:
        return ChosenVariant(axes=variant.axes, config=config)
    measured = complete_measurement(config.model, config.task, config.difficulty, sweeps)
    selection = select(config.task, measured)
    task = replace(config.task, selection_sha256=selection.sha256)
    return ChosenVariant(axes=variant.axes, config=replace(config, task=task), selection=selection)
