"""A real, small language model on disk, with a tokenizer and a chat template of its own."""

from pathlib import Path
from typing import Any

from tests.models.families import configuration, language_model

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
    """A tiny random model of `family` (tests/models/families.py), with that tokenizer."""
    tokenizer = small_tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    language_model(configuration(family, vocab_size=336, **ends)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
