"""Every variant of a config, its problems chosen by difficulty."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.evaluation_sets import is_chosen, of_set, on_parts, on_sets
from isosweep.config.mixture import of_part
from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.measurement import complete_measurement, is_measured
from isosweep.difficulty.selection import Selection, select
from isosweep.errors import SettingError
from isosweep.tasks import ProblemSets, problem_sets, use_problems


@dataclass(frozen=True, kw_only=True)
class ChosenVariant(Variant):
    """A variant whose config names its problems by their hash; `selections`: those of its task, of
    its mixture's parts and of its further evaluation sets that are chosen by difficulty.

    `unmeasured`: some are still to be chosen, and there may be too few.
    """

    selections: tuple[Selection, ...] = ()
    unmeasured: bool = False

    @property
    def problems(self) -> ProblemSets:
        """Problems to train on and to evaluate on.

        Raises SettingError where they cannot be drawn: too few, unreadable, or a broken source.
        """
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
    config, selections, unmeasured = variant.config, list[Selection](), False

    def choose(on: SweepConfig, *, beside_training: bool = False) -> str:
        """The hash of the problems of `on` that are chosen; of a set those not trained on."""
        nonlocal unmeasured
        # What a set has beside unknown problems is not known either.
        if not needed and (unmeasured or not is_measured(on, sweeps)):
            unmeasured = True
            # Runs of another difficulty are other runs, though it is not known yet on what.
            described = json.dumps(on.task.difficulty, sort_keys=True)
            return f"unmeasured-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
        measured, task = complete_measurement(on, sweeps), on.task
        if beside_training:
            trained = {problem.problem_id for problem in problem_sets(config.task).training}
            # Nothing is trained on a set: one problem is the least that can be asked for.
            measured, task = measured.without(trained), replace(task, num_train_problems=1)
        selections.append(select(task, measured))
        sha256 = selections[-1].sha256
        use_problems(replace(on.task, selection_sha256=sha256), selections[-1].sets)
        return sha256

    if config.task.mixture is not None:
        parts = dict(config.task.mixture.parts)
        for name, on in on_parts(config).items():
            try:
                if on.task.difficulty is not None:
                    parts[name] = {**parts[name], "selection_sha256": choose(on)}
            except SettingError as error:
                raise of_part(name, error) from None
        task = replace(config.task, mixture=replace(config.task.mixture, parts=parts))
        config = replace(config, task=task)
    elif config.task.difficulty is not None:
        config = replace(config, task=replace(config.task, selection_sha256=choose(config)))
    sets = dict(config.evaluation.sets or {})
    for name, on in on_sets(config).items():
        try:
            if is_chosen(sets[name], on.task):
                sha256 = choose(on, beside_training=True)
                own = {**(sets[name].task or {}), "selection_sha256": sha256}
                sets[name] = replace(sets[name], task=own)
                config = replace(config, evaluation=replace(config.evaluation, sets=dict(sets)))
        except SettingError as error:
            raise of_set(name, error) from None
    return ChosenVariant(
        axes=variant.axes, config=config, selections=tuple(selections), unmeasured=unmeasured
    )
