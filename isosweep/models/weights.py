"""Where a model's weights are, and what is missing when they are not."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path

from isosweep.config.model import BUILTIN_MODEL, ModelConfig
from isosweep.config.model_files import architecture_from_config
from isosweep.models.builtin import IDENTITY, builtin_model
from isosweep.models.checkpoints import broken_parts


def weights(model: ModelConfig) -> str:
    """What `from_pretrained` loads: a directory, or a hub name that is in the local cache."""
    if model.path is not None:
        return model.path
    if model.source == BUILTIN_MODEL:
        return str(builtin_model())
    return model.source


def content_identity(model: ModelConfig) -> list[str]:
    """What distinguishes this model from any other, without reading all of it.

    Of a directory: the sha256 of configuration and tokenizer, and of each weights file its size,
    header and `_SAMPLES` pieces: weights that were trained further differ in every piece.
    """
    if model.path is None:
        if model.source == BUILTIN_MODEL:
            return [IDENTITY]
        return [model.source, model.revision or ""]
    directory = Path(model.path)
    whole = [directory / name for name in _SMALL_FILES if (directory / name).is_file()]
    identity = [f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in whole]
    for file in sorted(directory.glob("*.safetensors")):
        size, digest = file.stat().st_size, hashlib.sha256()
        with file.open("rb") as content:
            for number in range(_SAMPLES):
                content.seek(size * number // _SAMPLES)
                digest.update(content.read(_SAMPLE_BYTES))
        identity.append(f"{file.name} {size} {digest.hexdigest()}")
    return identity


# Files beside the weights that change what a model does.
_SMALL_FILES = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("vocab.json", "merges.txt", "tokenizer.model"),
)
_SAMPLES, _SAMPLE_BYTES = 64, 65536


def missing_weights(model: ModelConfig) -> list[tuple[str, str]]:
    """What keeps the model from loading here, each with what to do about it; [] if nothing."""
    if model.path is not None:
        return _missing_in(model, Path(model.path))
    if model.source == BUILTIN_MODEL:
        return _missing_in(model, builtin_model())
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model.source, "config.json", revision=model.revision)
    if not isinstance(cached, str):
        remedy = f"run `hf download {model.source}` with a network, or set model.path=DIRECTORY"
        return [(f"weights of {model.source} in the local Hugging Face cache", remedy)]
    return _missing_in(model, Path(cached).parent)


def _missing_in(model: ModelConfig, directory: Path) -> list[tuple[str, str]]:
    config = directory / "config.json"
    try:
        saved = architecture_from_config(json.loads(config.read_text()))
    except (OSError, ValueError) as error:
        return [(f"a readable {config} ({error})", "set model.path to a saved model's directory")]
    remedy = "save model and tokenizer in it again with save_pretrained, or copy them anew"
    problems = [(part, remedy) for part in broken_parts(directory, saved)]
    planned = model.architecture
    for field in fields(planned):
        value, wanted = getattr(saved, field.name), getattr(planned, field.name)
        if value != wanted:
            numbers = f"{field.name} is {value} in the file, {wanted} in the plan"
            what = f"agreement of {config} with the plan: {numbers}"
            problems.append((what, f"set model.architecture.{field.name}={value}"))
    return problems
