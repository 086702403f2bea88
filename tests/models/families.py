"""A tiny configuration of every model family that is planned and trained."""

from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 80,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": 0,
}
_EXPERTS = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "mlp_only_layers": [1],
}
# What each family's configuration says beside SIZES, under transformers' name of the family.
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen2": {},
    "Qwen3": {"head_dim": 32},
    "Llama": {"tie_word_embeddings": True},
    "Qwen3Moe": {**_EXPERTS, "head_dim": 16},
    "Qwen2Moe": {**_EXPERTS, "shared_expert_intermediate_size": 96},
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Gemma": {"head_dim": 32},
    "Gemma2": {"head_dim": 32, "sliding_window": 8},
    "Gemma3Text": {"head_dim": 32, "sliding_window": 8, "sliding_window_pattern": 2},
    "Phi3": {},
    "Olmo2": {},
    "SmolLM3": {},
    "Granite": {"logits_scaling": 4.0},
    "Mistral": {"sliding_window": None},
}


def configuration(family: str, **more: Any) -> Any:
    """transformers' configuration of a tiny model of `family`."""
    import transformers

    kind = getattr(transformers, f"{family}Config")
    return kind(**{**SIZES, **FAMILIES[family], **more})


def language_model(config: Any) -> Any:
    """A model of it with random weights."""
    import torch
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config)
