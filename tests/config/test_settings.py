"""Packaged choices, what Python types of values, and which settings a sweep's author changed."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from isosweep.config.base import stored_settings
from isosweep.config.changes import changed_settings
from isosweep.config.compose import config_of
from isosweep.config.overrides import as_typed
from isosweep.config.recipe import RecipeConfig
from isosweep.config.refusals import config_directory
from isosweep.models.builtin import builtin_model
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


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ("budget=1e10  'grid.seeds=[0, 1]'", ("budget=1e10", "grid.seeds=[0, 1]")),
        (["budget=1e10"], ("budget=1e10",)),
        ({"budget": 1e20}, ("budget=1e20",)),
        ({"budget": [1.5e10, 16]}, ("budget=[1.5e10,16]",)),
        ({"recipe.learning_rate": 3e-4}, ("recipe.learning_rate=0.0003",)),
        ({"grid.seeds": range(2)}, ("grid.seeds=[0,1]",)),
        ({"budget": np.array([1e10, 2e10])}, ("budget=[1e10,2e10]",)),
        ({"grid.tolerance": np.float64(0.5)}, ("grid.tolerance=0.5",)),
        ({"confirm": True, "sweep": None}, ("confirm=true", "sweep=null")),
        ({"task.math.path": Path("a/b.jsonl")}, ("task.math.path=a/b.jsonl",)),
        ({"+experiment": "tiny/playbook_fix_B"}, ("+experiment=tiny/playbook_fix_B",)),
        ({"~evaluation.sets.aime": None}, ("~evaluation.sets.aime",)),
        (
            {"grid.axes": {"recipe": ["dapo", "scalerl"], "recipe.num_iterations": (1, 2)}},
            ("grid.axes={recipe:[dapo,scalerl],recipe.num_iterations:[1,2]}",),
        ),
    ],
)
def test_settings_are_written_as_they_would_be_typed(given: object, typed: tuple[str, ...]) -> None:
    assert as_typed(given) == typed  # type: ignore[arg-type]


def test_what_is_typed_of_python_s_values_is_composed_as_they_are() -> None:
    given = {"budget": np.geomspace(1e10, 1e12, 3), "grid.seeds": {3, 1}, "model": "qwen-1.5b"}
    config = config_of(as_typed(given))
    assert config.budgets == (1e10, 1e11, 1e12)
    assert config.grid.seeds == [1, 3]
    assert config.model.name == "qwen-1.5b"


def test_an_application_of_the_user_s_keeps_its_own_hydra(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine: 1\n")
    axes = {"grid.axes": {"recipe": ["dapo", "grpo"]}}
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert len(config_of(as_typed(axes)).variants) == 2
        assert compose("config") == {"mine": 1}
    assert not GlobalHydra.instance().is_initialized()


def changed(*overrides: str) -> dict[str, object] | None:
    return changed_settings(stored_settings(make_config(*overrides).model_dump(), {}))


def test_defaults_are_no_changes() -> None:
    assert changed() == {}


def test_a_setting_and_a_choice_are_named_once() -> None:
    found = changed("recipe.beta=0.01", "model=qwen-0.5b", "grid.seeds=[0,1,2,3]")
    assert found is not None
    assert found["recipe.beta"] == 0.01
    assert found["grid.seeds"] == [0, 1, 2, 3]
    assert found["model"] == "qwen-0.5b"
    assert not [name for name in found if name.startswith("model.")]


@pytest.mark.parametrize("name", ["my-model", "tiny"])
def test_a_model_of_ones_own_is_named_by_its_directory(name: str, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    shutil.copy(builtin_model() / "config.json", directory)
    local = ("model=local", f"model.path={directory}", "recipe.beta=0.01", "task=sort")
    found = changed(*local)
    assert found is not None
    own = {"model": "local", "model.path": str(directory), "recipe.beta": 0.01}
    # And the groups that language models are run with.
    assert {name: found[name] for name in found if name in own or "." in name} == own
    assert found["grid"] == "joint"
    found = changed(*local, "model.name=second")
    assert found is not None
    assert found["model.name"] == "second"
