"""Parts of a mixture whose problems are chosen by difficulty."""

from pathlib import Path

import pytest

from isosweep.config.evaluation_sets import on_parts
from isosweep.difficulty.selection import load_selection, store_selection
from isosweep.difficulty.variants import choose_variants
from isosweep.errors import SettingError
from isosweep.modes.difficulty import measured_configs
from isosweep.store.paths import RunPaths
from isosweep.tasks import problem_sets
from tests.difficulty.test_difficulty import config_in, measured

MIXED = (
    *("task=sort_mix", "task.num_train_problems=24", "task.num_eval_problems=16"),
    "task.mixture.parts.long.difficulty=hard",
)


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
    # As a worker reads them.
    run = RunPaths(tmp_path / "sweeps" / "runs" / "r")
    (selection,) = variant.selections
    store_selection(run, selection)
    for part in variant.config.task.parts.values():
        load_selection(run, part)
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
