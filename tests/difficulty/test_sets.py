"""Further evaluation sets whose problems are chosen by difficulty."""

from pathlib import Path

import pytest

from isosweep.config.difficulty import DIFFICULTIES
from isosweep.config.evaluation_sets import on_sets
from isosweep.difficulty.selection import load_selection, store_selection
from isosweep.difficulty.variants import choose_variants
from isosweep.errors import SettingError
from isosweep.store.paths import RunPaths
from isosweep.tasks.sets import problems_of_sets
from tests.difficulty.test_difficulty import SIZES, config_in, measured


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
    # As a worker reads them.
    run = RunPaths(tmp_path / "sweeps" / "runs" / "r")
    for selection in variant.selections:
        store_selection(run, selection)
    for on in on_sets(variant.config).values():
        load_selection(run, on.task)
    assert problems_of_sets(variant.config, variant.problems.training) == found
    more = config_in(tmp_path, *mix, f"evaluation.sets={{{sets.replace(':12', ':80')}}}")
    with pytest.raises(SettingError) as caught:
        choose_variants(more)
    assert caught.value.setting == "evaluation.sets.hard.task.difficulty"
