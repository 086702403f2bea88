"""Overrides from Python are what would be typed, and Hydra's refusals are in our words."""

from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from isosweep.config.compose import config_of
from isosweep.config.overrides import as_typed


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
