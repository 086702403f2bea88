"""Where a model's weights are, and what is missing when they are not."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path

from isosweep.config.model import BUILTIN_MODEL, ModelConfig
from isosweep.config.model_files import ADAPTER, MERGED, architecture_from_config
from isosweep.files import LFS_POINTER, UNFETCHED, read_foreign_json
from isosweep.gguf import how_to_get, origin
from isosweep.models.builtin import IDENTITY, builtin_model
from isosweep.models.checkpoints import INDEX, broken_parts

# Files beside the weights that change what is sampled: which tensors are loaded, what text becomes
# tokens and a prompt, and which tokens end an answer.
_SMALL_FILES = (
    *("config.json", "generation_config.json", INDEX, "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "vocab.json"),
    *("vocab.txt", "merges.txt", "tokenizer.model"),
)
# Pieces of a weights file that are read.
_SAMPLES, _SAMPLE_BYTES = 64, 65536

Missing = list[tuple[str, str]]


def weights(model: ModelConfig) -> str:
    """What `from_pretrained` and vLLM load: a directory; a hub name only where none is cached.

    A snapshot's directory is found without a network, which a name is not on every node.
    """
    return str(_directory(model) or model.source)


def _directory(model: ModelConfig) -> Path | None:
    """Where the weights lie on this machine; None for a hub model that is not in its cache."""
    if model.location is not None:
        return model.location
    if model.source == BUILTIN_MODEL:
        return builtin_model()
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model.source, "config.json", revision=model.revision)
    return Path(cached).parent if isinstance(cached, str) else None


def content_identity(model: ModelConfig) -> list[str]:
    """What distinguishes this model from any other, without reading all of it.

    Of a GGUF file: its sha256. Of a directory: the sha256 of every small file that changes what is
    sampled, and of each weights file its size, header and `_SAMPLES` pieces: weights that were
    trained further differ in every piece. What the chat template is given belongs to it.
    """
    told = [json.dumps([model.chat_template_kwargs, model.system_prompt], sort_keys=True)]
    return _weights_identity(model) + (told if model.asks_for_a_template else [])


def _weights_identity(model: ModelConfig) -> list[str]:
    if model.location is None:
        if model.source == BUILTIN_MODEL:
            return [IDENTITY]
        return [model.source, model.revision or ""]
    if (file_digest := origin(model.location)) is not None:
        return [f"gguf {file_digest}"]
    identity = [
        f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in _small_files(model.location)
    ]
    for file in sorted(model.location.glob("*.safetensors")):
        size, digest = file.stat().st_size, hashlib.sha256()
        with file.open("rb") as content:
            for number in range(_SAMPLES):
                content.seek(size * number // _SAMPLES)
                digest.update(content.read(_SAMPLE_BYTES))
        identity.append(f"{file.name} {size} {digest.hexdigest()}")
    return identity


def _small_files(directory: Path) -> list[Path]:
    return [directory / name for name in _SMALL_FILES if (directory / name).is_file()]


def missing_weights(model: ModelConfig) -> Missing:
    """What keeps the model from loading here, each with what to do about it; [] if nothing."""
    if (directory := _directory(model)) is not None:
        return _missing_in(model, directory)
    from huggingface_hub.constants import HF_HUB_CACHE

    pinned = f" --revision {model.revision}" if model.revision else ""
    what = f"weights of {model.source}{pinned} in the local Hugging Face cache ({HF_HUB_CACHE})"
    ways = [f"`hf download {model.source}{pinned}` with a network", *how_to_get(model.source)]
    return [(what, f"run {', or '.join(ways)}, or set model.path=DIRECTORY or FILE.gguf")]


def _missing_in(model: ModelConfig, directory: Path) -> Missing:
    config = directory / "config.json"
    try:
        saved = architecture_from_config(read_foreign_json(config))
    except (OSError, ValueError) as error:
        return [(f"a readable {config} ({error})", "set model.path to a saved model's directory")]
    if (directory / ADAPTER).exists():
        adapter = f"its adapter ({ADAPTER}) would be put on top of its weights"
        remedy = f"move {ADAPTER} out of it, or train {MERGED}"
        return [(f"one model in {directory}: {adapter}", remedy)]
    problems = []
    # The built-in model is whole by its hash.
    if model.location is not None or model.source != BUILTIN_MODEL:
        remedy = "save model and tokenizer in it again with save_pretrained, or copy them anew"
        problems = [(part, remedy) for part in _broken(directory, saved.vocab_size)]
    if model.asks_for_a_template and not _has_template(directory):
        settings = "model.system_prompt and model.chat_template_kwargs act through it: set null"
        problems.append((f"a chat template in {directory}", settings))
    for field in fields(saved):
        value, wanted = getattr(saved, field.name), getattr(model.architecture, field.name)
        if value != wanted:
            numbers = f"{field.name} is {value} in the file, {wanted} in the plan"
            what = f"agreement of {config} with the plan: {numbers}"
            problems.append((what, f"set model.architecture.{field.name}={value}"))
    return problems


def _broken(directory: Path, vocab_size: int) -> list[str]:
    """Files that Git LFS has not fetched, else what else is wrong with them."""
    unfetched = []
    for file in (*_small_files(directory), *directory.glob("*.safetensors")):
        with file.open("rb") as content:
            if content.read(len(LFS_POINTER)) == LFS_POINTER:
                unfetched.append(f"a readable {file} ({UNFETCHED})")
    return unfetched or broken_parts(directory, vocab_size)


def _has_template(directory: Path) -> bool:
    """Whether the tokenizer there has a chat template, as transformers saves one."""
    if (directory / "chat_template.jinja").exists():
        return True
    try:
        saved = read_foreign_json(directory / "tokenizer_config.json")
    except (OSError, ValueError):
        return False
    return bool(saved.get("chat_template"))
