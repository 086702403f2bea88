"""Makes the built-in model's files: a Qwen2 of 0.1M parameters, warm-started on sorting.

    python -m isosweep.models.make_builtin DIRECTORY

It takes some seconds on a CPU. The last digits of the weights depend on the processor, which is why
the files are shipped: `isosweep.models.builtin` reads them and knows their hash.
"""

import os
import random
import sys
from pathlib import Path
from typing import Any

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


def character_tokenizer() -> Any:
    """One token a character, for the built-in model and for architectures with random weights."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([*_SPECIAL, *_CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_SPECIAL[0], eos_token=_SPECIAL[1]
    )


def make_builtin(directory: Path, steps: int = _STEPS) -> None:
    """Train the model to copy sorted digits, well enough that RL has something to improve."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = character_tokenizer()
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


def _batch(tokenizer: Any, generator: random.Random) -> tuple[Any, Any]:
    """One supervised batch of a single length: ids and labels (batch, tokens), prompt masked."""
    import torch

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
    # As in a worker: more threads would add up the same numbers in another order.
    os.environ["OMP_NUM_THREADS"] = "1"
    make_builtin(Path(sys.argv[1]))
