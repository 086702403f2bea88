"""Of a stored sweep's settings those are shown that its author changed."""

import shutil
from pathlib import Path

import pytest

from isosweep.config.base import stored_settings
from isosweep.config.changes import changed_settings
from isosweep.models.builtin import builtin_model
from tests.conftest import make_config


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
