"""What people type in the place of settings: files, models and data by where they lie, words."""

import json
import shlex
from pathlib import Path

import pytest

from isosweep.config.aliases import alias
from isosweep.config.compose import config_of, prepared, shown_config
from isosweep.config.described import help_of
from isosweep.errors import SettingError


def test_a_yaml_file_is_its_settings_and_what_is_typed_beside_it_counts(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(
        "model: qwen-1.5b\nbudget: 1e20\nrecipe: {beta: 0.01}\nrecipe.temperature: 0.9\n"
        "grid:\n  axes: {recipe.num_iterations: [1, 2]}\nlauncher: slurm\n"
    )
    config = config_of([str(file), "budget=1e19", "grid.seeds=[3]"])
    assert (config.model.name, config.budgets) == ("qwen-1.5b", (1e19,))
    assert config.launcher.name == "slurm"
    assert (config.recipe.beta, config.recipe.temperature) == (0.01, 0.9)
    assert config.grid.axes == {"recipe.num_iterations": [1, 2]}
    file.write_text("- model\n")
    with pytest.raises(SettingError, match="holds no settings"):
        config_of([str(file)])
    with pytest.raises(SettingError, match="cannot be read"):
        config_of([str(tmp_path / "none.yaml")])


def test_a_hub_id_is_its_choice_or_a_model_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared(["model=Qwen/Qwen2.5-1.5B-Instruct"]) == ["model=qwen-1.5b"]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SettingError, match="hf download mine/small"):
        config_of(["model=mine/small"])
    snapshot = tmp_path / "models--mine--small" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 32}
    (snapshot / "config.json").write_text(json.dumps({"model_type": "llama", **shape}))
    model = config_of(["model=mine/small", "budget=1e12"]).model
    assert (model.source, model.path, model.name) == ("mine/small", None, "small")
    assert model.architecture.intermediate_size == 256
    assert config_of([f"model={snapshot}", "budget=1e12"]).model.path == str(snapshot)


def test_a_task_is_named_by_its_file() -> None:
    assert prepared(["task=a/p.jsonl"]) == ["task=math_file", "task.math.path=a/p.jsonl"]
    own = ["task=custom", "task.custom.function=mine:score"]
    assert prepared(["task=mine.py:score"]) == own
    assert prepared(["task=lab/mine.py:score"]) == [*own, "task.custom.directory=lab"]


def test_help_of_a_word_says_type_unit_default_meaning_and_an_example() -> None:
    said = help_of("lr")
    assert said.startswith("recipe.learning_rate\n")
    for part in ("type: number > 0", "default: 0.0003; with model=qwen-1.5b: 1e-06", "example: "):
        assert part in said
    assert "checkpoint.keep=resumable" in help_of("checkpoint")
    with pytest.raises(SettingError, match="no setting and no group"):
        help_of("zzz")


def test_the_settings_shown_are_those_in_use_the_model_first() -> None:
    shown = shown_config([])
    top = [line for line in shown.splitlines() if line[:1].isalpha()]
    assert top[1:3] == ["model:", "task:"]
    assert "partition" not in shown
    assert "partition" in shown_config(["launcher=slurm"])


def test_a_choice_of_one_s_own_may_be_named_like_a_hub_id(tmp_path: Path) -> None:
    (tmp_path / "model" / "lab").mkdir(parents=True)
    (tmp_path / "model" / "lab" / "q.yaml").touch()
    assert prepared(["model=lab/q"], [tmp_path]) == ["model=lab/q"]


def test_a_small_budget_is_no_range() -> None:
    assert config_of(["budget=0.00005", "budget_unit=device_hours"]).budgets == (5e-05,)


@pytest.mark.parametrize(
    "word",
    [
        *("n=8", "kl=0.01", "clip_ratio_high=0.3", "max_grad_norm=0.5", "eval_temperature=0.6"),
        *("launcher.slurm.exclude=node[01-03]", "gres=gpu:1", "lora=8", "dynamic_sampling=true"),
        *("tracking=wb", "recipe=ppo", "mode=export", "budget=10^20", "budget=1e18..1e20"),
        *("seed=3", "early_stopping=true", "container=x.sif", "launcher.gpus=2", "mem=10"),
    ],
)
def test_what_other_programs_call_a_setting_is_answered_by_what_works(word: str) -> None:
    first = alias(word).split(", or ")[0].split(" for ")[0]
    config = config_of(shlex.split(first))
    assert config != config_of([]), first
