"""Makes the built-in model's files: a Qwen2 of 0.1M parameters, warm-started on sorting.

    OMP_NUM_THREADS=1 python -m tests.models.make_builtin DIRECTORY

It takes some seconds on a CPU. The last digits of the weights depend on the processor, which is why
the files are shipped: `isosweep.models.builtin` reads them and knows their hash.
"""

import random
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from isosweep.tasks.sorting import is_task_problem

# Characters of the vocabulary after the special tokens; the rest of it stays unused.
_CHARACTERS = "0123456789s="
_SPECIAL = ("<pad>", "<eos>")
_STEPS, _BATCH, _LEARNING_RATE, _LEVELS = 600, 64, 2e-3, (3, 8)
# The architecture of conf/model/tiny.yaml, in the words of transformers.
_ARCHITECTURE = {
    "vocab_size": 32,
    "hidden_size": 64,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
}


def make_builtin(directory: Path, steps: int = _STEPS) -> None:
    """Train the model to copy sorted digits, well enough that RL has something to improve."""
    vocabulary = {token: i for i, token in enumerate([*_SPECIAL, *_CHARACTERS])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token=_SPECIAL[0]))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token=_SPECIAL[0], eos_token=_SPECIAL[1]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(
            **_ARCHITECTURE,
            max_position_embeddings=128,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
        network = Qwen2ForCausalLM(config)
        optimizer = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE)
        generator = random.Random(0)
        network.train()
        for _ in range(steps):
            ids, labels = _batch(tokenizer, generator)
            loss = network(input_ids=ids, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    network.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _batch(tokenizer: Any, generator: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    """One supervised batch of a single length: ids and labels (batch, tokens), prompt masked."""
    level = generator.randint(*_LEVELS)
    rows: list[list[int]] = []
    # Short levels have few problems outside the task's quarter: they repeat, which is harmless.
    while len(rows) < _BATCH:
        digits = "".join(generator.choice("0123456789") for _ in range(level))
        if not is_task_problem(digits):
            text = f"s{digits}=" + "".join(sorted(digits))
            rows.append([*tokenizer(text)["input_ids"], tokenizer.eos_token_id])
    ids = torch.tensor(rows)
    labels = ids.clone()
    labels[:, : level + 2] = -100
    return ids, labels


if __name__ == "__main__":
    make_builtin(Path(sys.argv[1]))
