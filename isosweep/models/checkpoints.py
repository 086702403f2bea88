"""Whether a saved model is whole: read from headers and sizes alone, without loading a weight.

The safetensors format (huggingface.co/docs/safetensors): 8 bytes, little-endian, with the length
of a JSON header; the header, which gives each tensor's `dtype`, `shape` and `data_offsets`; data.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isosweep.config.architecture import Architecture

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
# The format's own bound on a header.
_MOST_HEADER_BYTES = 100_000_000
_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"), 1),
}
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)")
# Files of which a tokenizer without tokenizer.json needs one whole set.
_VOCABULARIES = (("vocab.json", "merges.txt"), ("tokenizer.model",), ("vocab.txt",))

Shapes = dict[str, tuple[int, ...]]


class BrokenFileError(Exception):
    """A file is not what it should be; the message says which and how."""


def broken_parts(directory: Path, architecture: Architecture) -> list[str]:
    """What is wrong with the model saved in `directory`; [] if it is whole.

    `architecture` is that of its config.json: weights and tokenizer have to agree with it.
    """
    problems = list(_tokenizer_problems(directory, architecture))
    shapes: Shapes = {}
    try:
        for path, names in _weight_files(directory):
            present = safetensors_shapes(path)
            absent = sorted(names - set(present))
            if absent:
                problems.append(f"{absent[0]} in {path}, where {_INDEX} places it")
            shapes |= present
    except BrokenFileError as error:
        return [*problems, str(error)]
    return [*problems, *_shape_problems(directory, shapes, architecture)]


def safetensors_shapes(path: Path) -> Shapes:
    """Shape of every tensor in a safetensors file, by name.

    Raises BrokenFileError unless the header is whole and its offsets fill the file exactly.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
                raise BrokenFileError(
                    f"a whole {path}: it has {size} bytes, and its header alone says {length}"
                )
            header = json.loads(file.read(length))
            tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
            ends = {name: _end(path, name, entry) for name, entry in tensors.items()}
    except OSError as error:
        raise BrokenFileError(f"a readable {path} ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenFileError(f"a readable header in {path} ({error!r})") from None
    expected = 8 + length + max(ends.values(), default=0)
    if size != expected:
        raise BrokenFileError(
            f"a whole {path}: it has {size} bytes, and its header describes {expected}"
        )
    return {name: tuple(entry["shape"]) for name, entry in tensors.items()}


def _end(path: Path, name: str, entry: dict[str, Any]) -> int:
    """Where the tensor's data end, in bytes after the header."""
    start, end = entry["data_offsets"]
    width = _BYTES.get(entry["dtype"])
    wrong = width is not None and end - start != math.prod(entry["shape"]) * width
    if wrong or not 0 <= start <= end:
        raise BrokenFileError(
            f"a sound header in {path}: {name} of shape {entry['shape']} and type "
            f"{entry['dtype']} is said to lie at bytes {start} to {end}"
        )
    return int(end)


def _weight_files(directory: Path) -> Iterator[tuple[Path, set[str]]]:
    """The files that transformers would load, each with the tensors that it has to hold."""
    if (directory / _SINGLE).exists():
        yield directory / _SINGLE, set()
        return
    index = directory / _INDEX
    if not index.exists():
        raise BrokenFileError(f"{_SINGLE} or {_INDEX} in {directory}")
    try:
        places: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        shards = {shard: {n for n in places if places[n] == shard} for shard in places.values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenFileError(f"a readable {index} ({error!r})") from None
    absent = [shard for shard in sorted(shards) if not (directory / shard).exists()]
    if absent:
        raise BrokenFileError(
            f"{', '.join(absent)} in {directory}: {len(absent)} of the {len(shards)} files that "
            f"{_INDEX} names"
        )
    for shard in sorted(shards):
        yield directory / shard, shards[shard]


def _shape_problems(directory: Path, shapes: Shapes, arch: Architecture) -> Iterator[str]:
    """Where tensors' names and shapes disagree with config.json."""
    hidden = arch.hidden_size
    inside = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (arch.num_heads * arch.head_dim, hidden),
        "self_attn.k_proj.weight": (arch.num_kv_heads * arch.head_dim, hidden),
        "self_attn.qkv_proj.weight": (
            (arch.num_heads + 2 * arch.num_kv_heads) * arch.head_dim,
            hidden,
        ),
        "mlp.gate_proj.weight": (arch.intermediate_size, hidden),
        "mlp.gate_up_proj.weight": (2 * arch.intermediate_size, hidden),
        "mlp.shared_expert.gate_proj.weight": (arch.shared_expert_intermediate_size, hidden),
        "block_sparse_moe.experts.0.w1.weight": (arch.expert_intermediate_size, hidden),
    }
    embedding = (arch.vocab_size, hidden)
    ends = {"embed_tokens.weight": embedding, "lm_head.weight": embedding}
    layers: set[int] = set()
    for name, shape in shapes.items():
        layer = _LAYER.search(name)
        if layer is not None:
            layers.add(int(layer[1]))
        wanted = inside.get(layer[2]) if layer else ends.get(".".join(name.split(".")[-2:]))
        if wanted is not None and shape != wanted:
            yield (
                f"agreement of the weights in {directory} with config.json: {name} has shape "
                f"{list(shape)}, and config.json implies {list(wanted)}"
            )
            # One is enough: where a size is wrong, every layer shows it.
            return
    if layers != set(range(arch.num_layers)):
        yield (
            f"agreement of the weights in {directory} with config.json: they have "
            f"{len(layers)} layers, and config.json says {arch.num_layers}"
        )
    needed = ["embed_tokens.weight"] + ([] if arch.tie_word_embeddings else ["lm_head.weight"])
    for end in needed:
        if not any(name.endswith(end) for name in shapes):
            yield f"{end} among the weights in {directory}"


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
        document = json.loads(whole.read_text(encoding="utf-8"))
        vocabulary = document["model"]["vocab"]
        # Unigram models list their tokens, the others map tokens to ids.
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = (token["id"] for token in document.get("added_tokens") or ())
        largest = max([*ids, *added], default=-1)
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"a readable {whole} ({error!r})"
        return
    if largest >= arch.vocab_size:
        yield (
            f"agreement of {whole} with config.json: it has token {largest}, and vocab_size is "
            f"{arch.vocab_size}"
        )
