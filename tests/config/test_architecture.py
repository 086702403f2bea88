"""Architectures: shipped numbers, config.json and transformers' own parameters agree."""

import json
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.architecture import Architecture, architecture_from_config
from isosweep.config.hydra import config_directory
from isosweep.errors import SettingError
from tests.conftest import make_config

MODELS = sorted(
    path.stem
    for path in (config_directory() / "model").glob("*.yaml")
    if path.stem not in ("_llm", "local")
)
# Parameters that the hub reads from each model's safetensors files (a tied head is stored twice
# in the smaller Qwen3 files, so those are left out).
PUBLISHED = {
    "qwen-0.5b": 494_032_768,
    "qwen-1.5b": 1_543_714_304,
    "qwen-3b": 3_085_938_688,
    "qwen-7b": 7_615_616_512,
    "qwen-14b": 14_770_033_664,
    "qwen-32b": 32_763_876_352,
    "qwen-72b": 72_706_203_648,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "llama-1b": 1_235_814_400,
    "llama-3b": 3_212_749_824,
    "llama-8b": 8_030_261_248,
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-1.7b": 1_711_376_384,
}


def _transformers_config(name: str, arch: Architecture) -> Any:
    """The configuration that transformers would build the model of `conf/model/<name>` from."""
    import transformers

    common = {
        "vocab_size": arch.vocab_size,
        "hidden_size": arch.hidden_size,
        "intermediate_size": arch.intermediate_size,
        "num_hidden_layers": arch.num_layers,
        "num_attention_heads": arch.num_heads,
        "num_key_value_heads": arch.num_kv_heads,
        "head_dim": arch.head_dim,
        "tie_word_embeddings": arch.tie_word_embeddings,
    }
    if arch.num_experts:
        return transformers.Qwen3MoeConfig(
            **common,
            num_experts=arch.num_experts,
            num_experts_per_tok=arch.num_experts_per_token,
            moe_intermediate_size=arch.expert_intermediate_size,
        )
    if name.startswith("qwen3"):
        return transformers.Qwen3Config(**common)
    if name.startswith(("qwen", "tiny")):
        return transformers.Qwen2Config(**common)
    return transformers.LlamaConfig(**common)


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_has_the_parameters_that_transformers_makes(name: str) -> None:
    import torch
    import transformers

    arch = make_config(f"model={name}").model.architecture
    config = _transformers_config(name, arch)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert sum(p.numel() for p in model.parameters()) == arch.parameters


@pytest.mark.parametrize("name", MODELS)
def test_config_json_on_disk_gives_the_shipped_numbers(name: str, tmp_path: Path) -> None:
    shipped = make_config(f"model={name}").model.architecture
    _transformers_config(name, shipped).save_pretrained(tmp_path)
    config = make_config("model=local", f"model.path={tmp_path}")
    assert config.model.architecture == shipped
    assert config.model.name == tmp_path.name


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shipped_model_has_its_published_parameters(name: str) -> None:
    assert make_config(f"model={name}").model.architecture.parameters == PUBLISHED[name]


def test_older_switches_of_sliding_windows_are_read() -> None:
    document = {
        "model_type": "qwen2",
        "vocab_size": 10,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 6,
        "num_attention_heads": 2,
        "sliding_window": 16,
        "use_sliding_window": False,
        "max_window_layers": 4,
    }
    assert architecture_from_config(document).num_sliding_layers == 0
    assert (
        architecture_from_config({**document, "use_sliding_window": True}).num_sliding_layers == 2
    )
    types = ["sliding_attention", "full_attention"] * 3
    assert architecture_from_config({**document, "layer_types": types}).num_sliding_layers == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "must contain a readable config.json"),
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not one of"),
        ({"model_type": "llama", "hidden_size": 8}, "it lacks num_hidden_layers"),
    ],
)
def test_a_directory_that_describes_no_model_is_refused(
    document: Any, message: str, tmp_path: Path
) -> None:
    if document is not None:
        (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(SettingError, match=message):
        make_config("model=local", f"model.path={tmp_path}")
