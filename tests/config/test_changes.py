"""Of a stored sweep's settings those are shown that its author changed."""

from dataclasses import asdict

from isosweep.config.changes import changed_settings
from isosweep.config.variants import stored_settings
from tests.conftest import make_config


def changed(*overrides: str) -> dict[str, object] | None:
    return changed_settings(stored_settings(asdict(make_config(*overrides)), {}))


def test_defaults_are_no_changes() -> None:
    assert changed() == {}


def test_a_setting_and_a_choice_are_named_once() -> None:
    found = changed("recipe.beta=0.01", "model=qwen-0.5b", "grid.seeds=[0,1,2,3]")
    assert found is not None
    assert found["recipe.beta"] == 0.01
    assert found["grid.seeds"] == [0, 1, 2, 3]
    assert found["model"] == "qwen-0.5b"
    assert not [name for name in found if name.startswith("model.")]


def test_without_a_config_nothing_is_known() -> None:
    assert changed_settings({"analysis.name": "default", "recipe.beta": 0.01}) is None
    assert changed_settings({"model.name": "of another version"}) is None
