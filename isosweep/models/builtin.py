"""The built-in model: a Qwen2 of 0.1M parameters, warm-started on sorting in seconds on a CPU."""

import fcntl
import hashlib
import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from isosweep.config.model import ModelConfig
from isosweep.tasks.sorting import is_task_problem

# Raised when the warm start changes; with the architecture it names the cached model.
WARM_START_VERSION = 1
# Characters of the vocabulary after the special tokens; the rest of it stays unused.
_CHARACTERS = "0123456789s="
_SPECIAL = ("<pad>", "<eos>")
_STEPS, _BATCH, _LEARNING_RATE, _LEVELS = 600, 64, 2e-3, (3, 8)


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/isosweep`, by default `~/.cache/isosweep`."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "isosweep"


def tiny_model(model: ModelConfig) -> Path:
    """Directory of the warm-started model, made on first use; safe to call from many processes.

    It appears complete or not at all.
    """
    directory = cache_directory() / tiny_name(model)
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            building = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
            try:
                _build(model, building)
                building.rename(directory)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    return directory


def tiny_name(model: ModelConfig) -> str:
    """Name of the built-in model: a hash of everything it is made from."""
    recipe = [WARM_START_VERSION, repr(model.architecture), _CHARACTERS, _STEPS, _BATCH]
    recipe += [_LEARNING_RATE, _LEVELS]
    return f"tiny-{hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]}"


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


def _build(model: ModelConfig, directory: Path) -> None:
    """Train the model to copy sorted digits, well enough that RL has something to improve."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    arch = model.architecture
    tokenizer = character_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=arch.vocab_size,
            hidden_size=arch.hidden_size,
            intermediate_size=arch.intermediate_size,
            num_hidden_layers=arch.num_layers,
            num_attention_heads=arch.num_heads,
            num_key_value_heads=arch.num_kv_heads,
            head_dim=arch.head_dim,
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
        for _ in range(_STEPS):
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
