"""Whether a saved model is whole: read from headers and sizes alone, without loading a weight."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isosweep.config.architecture import Architecture
from isosweep.config.model_files import models_in
from isosweep.files import LFS_POINTER, UNFETCHED, read_foreign_json
from isosweep.gguf import quiet_transformers

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
# Files of which a tokenizer without tokenizer.json needs one whole set.
_VOCABULARIES = (("vocab.json", "merges.txt"), ("tokenizer.model",), ("vocab.txt",))

Shapes = dict[str, tuple[int, ...]]


class BrokenFileError(Exception):
    """A file is not what it should be; the message says which and how."""


def broken_parts(directory: Path, architecture: Architecture) -> list[str]:
    """What is wrong with the model saved in `directory`; [] if it is whole.

    `architecture` is that of its config.json: the tokenizer has to agree with it. Headers are read
    by safetensors, and whether all tensors are there is found by transformers, where these are
    installed.
    """
    problems = list(_tokenizer_problems(directory, architecture))
    shapes: Shapes = {}
    try:
        for path, names in _weight_files(directory):
            if find_spec("safetensors") is None:
                continue
            present = _shapes(path)
            absent = sorted(names - set(present))
            if absent:
                problems.append(f"{absent[0]} in {path}, where {_INDEX} places it")
            shapes |= present
    except BrokenFileError as error:
        return [*problems, str(error)]
    if not problems and find_spec("torch") and find_spec("transformers"):
        problems += _load_problems(directory, shapes)
    return problems


def _load_problems(directory: Path, shapes: Shapes) -> list[str]:
    """How transformers would load tensors of these names and shapes into the model of config.json:
    tried on the `meta` device, where tensors have no values."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    where = f"agreement of the weights in {directory} with config.json"
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(directory, trust_remote_code=False)
            with torch.device("meta"):
                tensors = {name: torch.empty(shape) for name, shape in shapes.items()}
                kind = type(AutoModelForCausalLM.from_config(config))
            _, report = kind.from_pretrained(
                None,
                config=config,
                state_dict=tensors,
                device_map="meta",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except RuntimeError:
        return [f"{where}: of the experts' tensors, which are put together, some are missing"]
    # Of a configuration that transformers refuses.
    except Exception as error:
        return [f"{where}: transformers cannot load them ({' '.join(str(error).split())})"]
    difference = load_difference(report)
    return [] if difference is None else [f"{where}: {difference}"]


def load_difference(report: Mapping[str, Any]) -> str | None:
    """How the tensors of the files differ from the model's, by transformers' report of loading
    (`output_loading_info=True`); None if each has its place."""
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


def _shapes(path: Path) -> Shapes:
    """Shape of every tensor in a safetensors file, by name.

    Raises BrokenFileError unless the header is whole and its offsets fill the file exactly.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with path.open("rb") as file:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise BrokenFileError(f"a readable {path} ({UNFETCHED})")
        with safe_open(path, framework="numpy") as tensors:
            names = tensors.keys()
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError) as error:
        raise BrokenFileError(f"a whole {path} ({error})") from None


def _weight_files(directory: Path) -> Iterator[tuple[Path, set[str]]]:
    """The files that transformers would load, each with the tensors that it has to hold."""
    if (directory / _SINGLE).exists():
        yield directory / _SINGLE, set()
        return
    index = directory / _INDEX
    if not index.exists():
        inside = models_in(directory)
        where = f", as in {inside[-1]}" if inside else ""
        raise BrokenFileError(f"{_SINGLE} or {_INDEX} in {directory}{where}")
    try:
        places: dict[str, str] = read_foreign_json(index)["weight_map"]
        shards = {shard: {n for n in places if places[n] == shard} for shard in places.values()}
        absent = [shard for shard in sorted(shards) if not (directory / shard).exists()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenFileError(f"a readable {index} ({error!r})") from None
    if absent:
        raise BrokenFileError(
            f"{', '.join(absent)} in {directory}: {len(absent)} of the {len(shards)} files that "
            f"{_INDEX} names"
        )
    for shard in sorted(shards):
        yield directory / shard, shards[shard]


def _tokenizer_problems(directory: Path, arch: Architecture) -> Iterator[str]:
    whole = directory / "tokenizer.json"
    if not whole.exists():
        config = (directory / "tokenizer_config.json").exists()
        vocabulary = any(
            all((directory / name).exists() for name in names) for names in _VOCABULARIES
        )
        if not (config and vocabulary):
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
    if largest >= arch.vocab_size:
        yield (
            f"agreement of {whole} with config.json: it has token {largest}, and vocab_size is "
            f"{arch.vocab_size}"
        )
