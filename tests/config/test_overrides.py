"""Overrides from Python are what would be typed, and Hydra's refusals are in our words."""

from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from isosweep.config.overrides import as_typed, config_of
from isosweep.errors import SettingError


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
        ({"confirm": True, "sweep_dir": None}, ("confirm=true", "sweep_dir=null")),
        ({"task.math.path": Path("a/b.jsonl")}, ("task.math.path=a/b.jsonl",)),
        ({"+experiment": "tiny/group_size"}, ("+experiment=tiny/group_size",)),
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
        assert len(config_of(as_typed(axes)).grid.composed or ()) == 2
        assert compose("config") == {"mine": 1}
    assert not GlobalHydra.instance().is_initialized()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model=qwen-1.5"], r"^model=qwen-1\.5: must be one of llama-1b.*: model=qwen-1\.5b$"),
        (["+experiment=playbook_joi"], r"works: \+experiment=playbook_joint$"),
        (["+experiment=tiny/data_reus"], r"^\+experiment=tiny/data_reus: .*=tiny/data_reuse$"),
        (["recipe=GRPO"], r"works: recipe=grpo$"),
        (["mode=plan", "modle=tiny"], r"works: model=tiny$"),
        # A beginning is a guess however much is missing.
        (["model=q"], r"works: model=qwen-"),
        (["mode=qwen"], r"works: mode=run$"),
        (["~launcher.nosuch"], r"^~launcher\.nosuch.*: there is no such setting"),
        (["n=[2,4]"], r"works: grid\.num_generations=\[2,4\]$"),
        (["recipe.lr=1e-5"], r"works: recipe\.learning_rate=1e-5$"),
        (["partition=gpu"], r"works: launcher\.slurm\.partition=gpu$"),
        # What the setting is without, not any value of its type.
        (["recipe.learning_rate=abc"], r"works: recipe\.learning_rate=0\.0003$"),
        (["model=qwen-1.5b", "recipe.learning_rate=-1"], r"works: recipe\.learning_rate=1e-06$"),
        (["analysis.margin=abc"], r"works: analysis\.margin=0\.02$"),
        (["search.max_compute=-1"], r"works: search\.max_compute=null$"),
        (["grid.num_generations=[2,x]"], r"works: grid\.num_generations=\[4,8,"),
        (["task.template=a=b"], r"works: task\.template='\"a=b\"'$"),
        (["grid.sedes=[0]"], r"^grid\.sedes=\[0\]: there is no such.*: grid\.seeds=\[0\]$"),
        (["recepie=grpo"], r"^recepie=grpo: there is no such setting.*: recipe=grpo$"),
        (["budget=1e10,2e10"], r"^budget=1e10,2e10: several values.*: budget=\[1e10,2e10\]$"),
        (["budget=[1"], r"^budget=\[1: cannot be read: .*: budget=\[1\]$"),
        (["model.path=${foo}"], r"Interpolation key 'foo' not found"),
        (["grid.tolerance=-1"], r"^grid\.tolerance=-1"),
        # What a shell has parted.
        (["budget=1e11", "1e12"], r"^budget=1e11 1e12: .*works: budget=\[1e11,1e12\]$"),
        (["budget=[1e11,", "1e12]", "mode=plan"], r"works: budget=\[1e11,1e12\]$"),
        (["1e12"], r"works: budget=1e12$"),
        # A data set is no task, and one choice has it.
        (["task=gsm8k"], r"works: task=math$"),
        (["task=foo"], r"works: task=sort$"),
        (["config=foo"], r"^config=foo: there is no such setting.*: \+experiment=data_reuse$"),
        (["seed=3"], r"works: grid\.seeds=\[3\]$"),
    ],
)
def test_what_hydra_refuses_names_the_setting_and_the_nearest(
    overrides: list[str], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        config_of(overrides)
