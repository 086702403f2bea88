"""The packaged choices of every group, and what they bring along."""

import pytest
from hydra import compose, initialize_config_dir

from isosweep.config.recipe import RecipeConfig
from isosweep.config.refusals import config_directory
from tests.conftest import make_config


def _options(group: str) -> list[str]:
    """Files that can be chosen: `_llm` is only included, the others need a value of the user's."""
    names = sorted(path.stem for path in (config_directory() / group).glob("*.yaml"))
    return [
        name
        for name in names
        if not name.startswith("_")
        and f"{group}={name}"
        not in (
            *("model=local", "task=custom", "task=mixture", "task=math_file"),
            "trainer=command",
        )
    ]


@pytest.mark.parametrize(
    "choice",
    [
        f"{path.name}={name}"
        for path in sorted(config_directory().iterdir())
        # Whole experiments are no group of settings: tests/plan/test_experiments.py plans them.
        if path.is_dir() and path.name != "experiment"
        for name in _options(path.name)
    ],
)
def test_every_shipped_config_file_is_valid(choice: str) -> None:
    group, name = choice.split("=")
    # Recipes of the papers are for models that have something to write.
    model = ("model=qwen-1.5b",) if group == "recipe" else ()
    assert getattr(make_config(choice, *model), group) is not None
    assert name in _options(group)


def test_a_model_brings_its_grid_and_the_command_line_overrides_it() -> None:
    assert make_config("model=qwen-1.5b").grid.name == "joint"
    assert make_config("model=qwen-1.5b", "grid=tiny").grid.name == "tiny"


def test_a_default_that_is_declared_needs_no_line_in_conf() -> None:
    declared = {name for name, item in RecipeConfig.model_fields.items() if not item.is_required()}
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        assert declared <= set(compose("config").recipe)
        assert compose("config", overrides=["~recipe"]).recipe.num_iterations == 1
