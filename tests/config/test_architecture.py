"""Architectures: shipped numbers, config.json and transformers' own parameters agree."""

import json
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.model import adapter_weights, architecture_from_config
from isosweep.errors import SettingError
from tests.conftest import make_config
from tests.models.families import FAMILIES, configuration, language_model

# Mixtures whose experts peft adapts as well, which the plan leaves out, and fused maps.
OTHER_ADAPTERS = ("Qwen3Moe", "Mixtral", "Phi3")
# Biases and norms of q and k are left out of the count.
BOUND = 1e-3
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


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shipped_model_has_its_published_parameters(name: str) -> None:
    found = make_config(f"model={name}").model.architecture.parameters
    assert found == pytest.approx(PUBLISHED[name], rel=BOUND)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_the_parameters_that_transformers_makes(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    # Of the family's own size: biases and norms are a larger share of a tiny model.
    config = getattr(transformers, f"{family}Config")()
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    config.save_pretrained(tmp_path)
    arch = architecture_from_config(json.loads((tmp_path / "config.json").read_text()))
    made = sum(p.numel() for p in model.parameters())
    assert arch.parameters == pytest.approx(made, rel=BOUND)
    assert arch.tie_word_embeddings == config.tie_word_embeddings
    types = getattr(config, "layer_types", None)
    assert types is None or arch.num_sliding_layers == types.count("sliding_attention")


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in OTHER_ADAPTERS])
def test_adapters_are_as_many_as_peft_makes(family: str) -> None:
    from peft import LoraConfig, get_peft_model

    config = configuration(family)
    arch = architecture_from_config(config.to_dict())
    given = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(language_model(config), given)
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    assert trained == adapter_weights(arch, 4)


# As the files on the hub are: what is the family's own is left out of them.
ON_THE_HUB: dict[str, tuple[dict[str, Any], int, int]] = {
    "google/gemma-3-1b-it": (
        {
            **{"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912},
            **{"num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1},
            **{"vocab_size": 262144, "head_dim": 256, "sliding_window": 512},
            "sliding_window_pattern": 6,
        },
        999_885_952,
        22,
    ),
    "Qwen/Qwen1.5-MoE-A2.7B-Chat": (
        {
            **{"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632},
            **{"num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16},
            **{"vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4},
            **{"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632},
        },
        14_315_784_192,
        0,
    ),
}


@pytest.mark.parametrize("name", ON_THE_HUB)
def test_a_file_of_the_hub_gives_the_published_parameters(name: str) -> None:
    document, parameters, sliding = ON_THE_HUB[name]
    arch = architecture_from_config(document)
    assert arch.parameters == pytest.approx(parameters, rel=BOUND)
    assert arch.num_sliding_layers == sliding


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "must contain a readable config.json"),
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not one of"),
        ({"model_type": "llama", "hidden_size": 8}, "it lacks num_hidden_layers"),
        ({"model_type": "gemma3", "text_config": {}}, "takes more than text"),
        (
            {"model_type": "InternLM2", "auto_map": {"AutoModel": "modeling_internlm2.X"}},
            "isosweep executes no code of a model",
        ),
    ],
)
def test_a_directory_that_describes_no_model_is_refused(
    document: Any, message: str, tmp_path: Path
) -> None:
    if document is not None:
        (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(SettingError, match=message):
        make_config("model=local", f"model.path={tmp_path}")


def test_quantised_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="its weights are quantised"):
        architecture_from_config({"model_type": "qwen2", "quantization_config": {"bits": 4}})
