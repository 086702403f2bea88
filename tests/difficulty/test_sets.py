"""Parts of a mixture and further evaluation sets whose problems are chosen by difficulty."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from isosweep.config.difficulty import DIFFICULTIES
from isosweep.config.evaluation_sets import on_parts, on_sets
from isosweep.config.task import TaskConfig
from isosweep.difficulty.selection import (
    ChosenVariant,
    choose_variants,
    load_selection,
    store_selection,
)
from isosweep.errors import SettingError
from isosweep.modes.difficulty import measured_configs
from isosweep.store.paths import RunPaths
from isosweep.tasks import problem_sets
from isosweep.tasks.sets import problems_of_sets
from tests.difficulty.test_difficulty import SIZES, config_in, measured

MIXED = (
    *("task=sort_mix", "task.num_train_problems=24", "task.num_eval_problems=16"),
    "task.mixture.parts.long.difficulty=hard",
)


def load_as_a_worker(variant: ChosenVariant, tasks: Iterable[TaskConfig], folder: Path) -> None:
    run = RunPaths(folder / "sweeps" / "runs" / "r")
    for selection in variant.selections:
        store_selection(run, selection)
    for task in tasks:
        load_selection(run, task)


def test_each_part_of_a_mix_is_a_set_beside_what_is_trained_on(tmp_path: Path) -> None:
    parts = ("hard", "easy")
    mix = ("task.difficulty={hard:0.5,easy:0.5}", *SIZES)
    sets = ",".join(f"{part}:{{task:{{difficulty:{part},num_eval_problems:12}}}}" for part in parts)
    config = config_in(tmp_path, *mix, f"evaluation.sets={{{sets}}}")
    _, rates = measured(config)
    (variant,) = choose_variants(config)
    assert variant.config.task == choose_variants(config_in(tmp_path, *mix))[0].config.task
    assert len(variant.selections) == 3
    found = problems_of_sets(variant.config, variant.problems.training)
    trained = {problem.problem_id for problem in variant.problems.training}
    for part in parts:
        low, high = DIFFICULTIES[part]
        assert len(found[part]) == 12
        assert all(low <= rates[problem.problem_id] <= high for problem in found[part])
        assert not trained & {problem.problem_id for problem in found[part]}
    load_as_a_worker(variant, (on.task for on in on_sets(variant.config).values()), tmp_path)
    assert problems_of_sets(variant.config, variant.problems.training) == found
    more = config_in(tmp_path, *mix, f"evaluation.sets={{{sets.replace(':12', ':80')}}}")
    with pytest.raises(SettingError) as caught:
        choose_variants(more)
    assert caught.value.setting == "evaluation.sets.hard.task.difficulty"


def test_a_part_has_problems_of_its_difficulty_and_the_others_are_as_they_were(
    tmp_path: Path,
) -> None:
    config = config_in(tmp_path, *MIXED)
    _, rates = measured(on_parts(config)["long"])
    (variant,) = choose_variants(config)
    long, short = variant.config.task.parts.values()
    chosen = [*problem_sets(long).training, *problem_sets(long).heldout]
    assert len(chosen) == 20
    assert all(rates[problem.problem_id] <= 0.0625 for problem in chosen)
    assert short == config.task.parts["short"]
    drawn = [problem.prompt for problem in variant.problems.training]
    assert drawn[:12] == [problem.prompt for problem in problem_sets(long).training]
    assert len(variant.selections) == 1
    load_as_a_worker(variant, variant.config.task.parts.values(), tmp_path)
    assert problem_sets(variant.config.task) == variant.problems


def test_a_mixture_that_is_not_measured_is_planned_and_not_run(tmp_path: Path) -> None:
    config = config_in(tmp_path, *MIXED)
    with pytest.raises(SettingError, match="has not been measured") as caught:
        choose_variants(config)
    assert caught.value.setting == "task.mixture.parts.long.difficulty"
    (variant,) = choose_variants(config, measured=False)
    assert variant.unmeasured


def test_every_part_is_measured_as_it_is_asked_in_the_mixture(tmp_path: Path) -> None:
    configs = measured_configs(config_in(tmp_path, *MIXED))
    assert [single.task.name for single in configs] == ["long", "short"]
    assert {single.task.completion_limit for single in configs} == {7}
    assert all(single.task.difficulty is None for single in configs)
