"""A run is another one where a setting changes its numbers, and the same where none does."""

from pathlib import Path

import pytest

from tests.contract.surface import TINY, run_ids

ONE = (*TINY, "budget=6.4e9", "grid.num_generations=[4]")
SAME = (
    *("budget=[6.4e9,1.28e10]", "grid.tolerance=0.1", "grid.seeds=[0]"),
    *("launcher=slurm", "launcher.max_retries=7", "checkpoint.keep=none", "tracking=mlflow"),
    *("analysis.margin=0.01", "evaluation.batch_size=8", "evaluation.keep_completions=0"),
    "hardware.dollars_per_hour=3",
    # What does not act.
    *("recipe.max_draws=4", "recipe.interruption_tokens=1"),
    # The same numbers in other words.
    *("recipe.learning_rate_rule=constant", "task.name=mine", "model.name=mine"),
)
OTHER = (
    *("recipe.learning_rate=1e-3", "recipe.beta=0.1", "recipe=grpo"),
    *("recipe.zero_variance=resample", "recipe.mini_batches=2", "recipe.temperature=0.9"),
    *("task.data_seed=1", "task.sort.levels=[4]", "task.num_train_problems=16"),
    *("task.max_completion_tokens=12", "evaluation.samples_per_problem=4", "evaluation.seed=1"),
    *("evaluation.temperature=0.5", "task.num_eval_problems=16", "grid.seeds=[1]"),
    *("model.revision=abc", "generation.stop=['5']"),
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The only run of the sweep."""
    ids = run_ids(tmp_path_factory.mktemp("plain"), *ONE)
    assert len(ids) == 1
    return ids


@pytest.mark.parametrize("setting", SAME)
def test_what_changes_no_number_keeps_the_run(
    setting: str, plain: set[str], tmp_path: Path
) -> None:
    assert run_ids(tmp_path, *ONE, setting) == plain


@pytest.mark.parametrize("setting", OTHER)
def test_what_changes_a_number_makes_another_run(
    setting: str, plain: set[str], tmp_path: Path
) -> None:
    assert run_ids(tmp_path, *ONE, setting).isdisjoint(plain)


def test_a_wider_grid_keeps_its_runs(plain: set[str], tmp_path: Path) -> None:
    wide = ("grid.seeds=[0,1]", "grid.num_generations=[2,4]")
    found = run_ids(tmp_path, *ONE, *wide)
    assert plain < found
    assert len(found) == 4
