"""`grid.axes`: settings, choices of config groups and named variants, each with its own config."""

from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from isosweep.config.axes import RESERVED, Variant, combinations
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.errors import SettingError
from isosweep.files import JsonObject
from isosweep.plan.cells import variant_label
from isosweep.plan.output import _COLUMNS
from tests.conftest import make_config


def plain_of(config: SweepConfig) -> JsonObject:
    """The config as a sweep's `config.json` holds it."""
    return config.model_dump() | {"budget": list(config.budgets)}


def variants(axes: str, *overrides: str) -> tuple[Variant, ...]:
    return combinations(make_config(f"grid.axes={axes}", *overrides))


def test_a_choice_of_a_recipe_is_what_the_command_with_it_composes() -> None:
    typed = ("model=qwen-1.5b", "recipe.temperature=0.7")
    made = variants("{recipe:[dapo,isocompute_easy]}", *typed)
    for variant, name in zip(made, ("dapo", "isocompute_easy"), strict=True):
        alone = make_config(f"recipe={name}", *typed)
        assert variant.axes == {"recipe": name}
        assert variant.config.recipe == alone.recipe
        assert variant.config.recipe.temperature == 0.7
        # What follows from the recipe elsewhere is its own too.
        assert variant.config.grid.max_completions_per_step == 65536
    assert make_config(*typed).grid.max_completions_per_step == 16384
    assert not GlobalHydra.instance().is_initialized()


def test_a_model_keeps_what_was_typed_of_models_and_brings_no_recipe() -> None:
    axes = "{model:[qwen3-0.6b,qwen3-1.7b]}"
    made = variants(axes, "model=qwen3-4b", "model.system_prompt=Think.", "recipe=dapo")
    assert {variant.config.model.system_prompt for variant in made} == {"Think."}
    assert {variant.config.recipe.name for variant in made} == {"dapo"}
    assert [variant.config.model.name for variant in made] == ["qwen3-0.6b", "qwen3-1.7b"]


def test_a_named_variant_is_the_sweep_but_for_what_it_sets() -> None:
    axes = (
        "{variant:{plain:{},sharp:{recipe.beta:0.01,recipe.temperature:0.5},other:{recipe:grpo}}}"
    )
    plain, sharp, other = variants(axes)
    base = make_config()
    assert plain.config.recipe == base.recipe
    assert (sharp.config.recipe.beta, sharp.config.recipe.temperature) == (0.01, 0.5)
    assert other.config.recipe == make_config("recipe=grpo").recipe
    assert [variant_label(each.axes) for each in (plain, sharp)] == ["plain", "sharp"]


def test_a_stored_sweep_needs_no_config_files_for_its_variants() -> None:
    config = make_config("grid.axes={recipe:[tiny,grpo],model:[tiny,smollm2-135m]}")
    again = combinations(sweep_config(plain_of(config)))
    assert again == combinations(config)


def test_no_axis_has_the_name_of_a_column() -> None:
    assert set(_COLUMNS) <= set(RESERVED)


def test_an_axis_puts_a_dictionary_in_the_place_of_the_sweep_s() -> None:
    axes = "{model.chat_template_kwargs:[{date_string:x},{}]}"
    kwargs = [each.config.model.chat_template_kwargs for each in variants(axes, "model=llama-1b")]
    assert kwargs == [{"date_string": "x"}, {}]


def test_an_axis_of_models_has_no_place_for_one_model_s_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,'
        ' "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,'
        ' "tie_word_embeddings": true, "max_position_embeddings": 512}'
    )
    with pytest.raises(SettingError, match=r"model.path names one model's weights"):
        variants("{model:[qwen-0.5b,qwen-1.5b]}", "model=local", f"model.path={tmp_path}")
