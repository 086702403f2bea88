"""Every variant of a config, its problems chosen by difficulty."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.evaluation_sets import is_chosen, of_set, on_parts, on_sets
from isosweep.config.mixture import MixtureConfig, of_part
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.difficulty.measurement import complete_measurement, is_measured
from isosweep.difficulty.selection import Selection, select
from isosweep.errors import SettingError
from isosweep.tasks import ProblemSets, problem_sets, use_problems


@dataclass(frozen=True, kw_only=True)
class ChosenVariant(Variant):
    """A variant whose config names its problems; `selection`: those chosen by difficulty, and
    `of_sets`: those of the parts of a mixture and of further evaluation sets that are.

    `unmeasured`: they are still to be chosen, and there may be too few.
    """

    selection: Selection | None = None
    of_sets: tuple[Selection, ...] = ()
    unmeasured: bool = False

    @property
    def selections(self) -> tuple[Selection, ...]:
        """All problems that were chosen by difficulty."""
        return (self.selection, *self.of_sets) if self.selection else self.of_sets

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
    chosen = _with_problems(variant, sweeps, needed)
    for name, on in on_sets(chosen.config).items():
        own = (chosen.config.evaluation.sets or {})[name]
        if is_chosen(own, on.task):
            try:
                chosen = _with_set(chosen, name, on, sweeps, needed)
            except SettingError as error:
                raise of_set(name, error) from None
    return chosen


def _with_set(
    variant: ChosenVariant, name: str, on: SweepConfig, sweeps: Path, needed: bool
) -> ChosenVariant:
    """The variant with the problems of one set chosen, among those that it does not train on."""
    task, selections = on.task, variant.of_sets
    known = not variant.unmeasured and is_measured(on, sweeps)
    if not (needed or known):
        # Nor is it where it is not known yet what is trained on.
        sha256, unmeasured = _unknown(task), True
    else:
        measured = complete_measurement(on, sweeps)
        trained = {problem.problem_id for problem in variant.problems.training}
        # Nothing is trained on it: one problem is the least that can be asked for.
        least = replace(task, num_train_problems=1)
        selection = select(least, measured.without(trained))
        sha256, unmeasured = selection.sha256, variant.unmeasured
        selections = (*selections, selection)
        use_problems(replace(task, selection_sha256=sha256), selection.sets)
    sets = dict(variant.config.evaluation.sets or {})
    sets[name] = replace(sets[name], task={**(sets[name].task or {}), "selection_sha256": sha256})
    evaluation = replace(variant.config.evaluation, sets=sets)
    config = replace(variant.config, evaluation=evaluation)
    return replace(variant, config=config, of_sets=selections, unmeasured=unmeasured)


def _unknown(task: TaskConfig) -> str:
    """In the place of a hash: runs of another difficulty are other runs, though it is not known yet
    on what."""
    described = json.dumps(task.difficulty, sort_keys=True)
    return f"unmeasured-{hashlib.sha256(described.encode()).hexdigest()[:16]}"


def _with_problems(variant: Variant, sweeps: Path, needed: bool) -> ChosenVariant:
    config = variant.config
    if config.task.mixture is not None:
        return _with_parts(variant, config.task.mixture, sweeps, needed)
    if config.task.difficulty is None:
        return ChosenVariant(axes=variant.axes, config=config)
    if not needed and not is_measured(config, sweeps):
        task = replace(config.task, selection_sha256=_unknown(config.task))
        config = replace(config, task=task)
        return ChosenVariant(axes=variant.axes, config=config, unmeasured=True)
    measured = complete_measurement(config, sweeps)
    selection = select(config.task, measured)
    task = replace(config.task, selection_sha256=selection.sha256)
    return ChosenVariant(axes=variant.axes, config=replace(config, task=task), selection=selection)


def _with_parts(
    variant: Variant, mixture: MixtureConfig, sweeps: Path, needed: bool
) -> ChosenVariant:
    """The variant with the problems of its mixture's parts chosen, each as a task alone."""
    config, parts = variant.config, dict(mixture.parts)
    chosen: dict[str, ChosenVariant] = {}
    for name, on in on_parts(config).items():
        try:
            own = _with_problems(Variant(axes={}, config=on), sweeps, needed)
        except SettingError as error:
            raise of_part(name, error) from None
        if sha256 := own.config.task.selection_sha256:
            chosen[name] = own
            parts[name] = {**parts[name], "selection_sha256": sha256}
    task = replace(config.task, mixture=replace(mixture, parts=parts))
    selections = {name: own.selection for name, own in chosen.items() if own.selection}
    for name, selection in selections.items():
        use_problems(task.parts[name], selection.sets)
    return ChosenVariant(
        axes=variant.axes,
        config=replace(config, task=task),
        of_sets=tuple(selections.values()),
        unmeasured=any(own.unmeasured for own in chosen.values()),
    )
