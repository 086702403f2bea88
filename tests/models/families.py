"""A tiny model of every family that is planned and trained, with a tokenizer of its own."""

from pathlib import Path
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


_LINES = (
    "What is 3 + 4? Think step by step, and put the final answer in \\boxed{7}.",
    "The quick brown fox jumps over the lazy dog.",
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
    "<answer>42</answer> so the answer is 42.",
)
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small_tokenizer() -> Any:
    """A byte-level BPE tokenizer of 320 tokens, with CHAT for its template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    whole = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    whole.chat_template = CHAT
    return whole


def save_family(directory: Path, family: str) -> Path:
    """A tiny random model of `family`, with that tokenizer."""
    tokenizer = small_tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    language_model(configuration(family, vocab_size=336, **ends)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
