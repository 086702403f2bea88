"""The architecture that a Hugging Face config.json describes, family by family."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isosweep.config.architecture import Architecture
from isosweep.errors import SettingError
from isosweep.files import read_foreign_json
from isosweep.gguf import convert, packaged_file

# Names in a config.json and ours.
_NAMES = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
}
_GEMMA = {"tie_word_embeddings": True, "head_dim": 256}
# What transformers takes for what a family's config.json leaves out (its configuration classes),
# under the names of config.json; where it is not what other families take.
_LEFT_OUT: dict[str, dict[str, Any]] = {
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "sliding_window": 4096, "sliding_window_pattern": 2},
    "gemma3_text": {**_GEMMA, "sliding_window": 4096, "sliding_window_pattern": 6},
    "qwen2_moe": {"qkv_bias": True},
    "smollm3": {"tie_word_embeddings": True, "use_sliding_window": False},
}
# What the architectures of `model_type` imply without a word in their config.json.
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "mixtral": {},
    "qwen2": {"qkv_bias": True},
    "qwen2_moe": {},
    "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True},
    "gemma": {},
    "gemma2": {"norms_per_layer": 4},
    "gemma3_text": {"norms_per_layer": 4, "qk_norm": True},
    "phi3": {"fused_projections": True},
    "olmo2": {"qk_norm": True, "wide_qk_norm": True},
    "smollm3": {},
    "granite": {},
}


def read_model(model: dict[str, Any]) -> None:
    """Give the settings of a model that lies at `model.path` the architecture found there, the
    directory that a relative path starts from, and where a GGUF file was converted to: also that
    of a package, for a model of the hub that is not in its cache.

    Raises SettingError where no architecture is found, or the file cannot be converted.
    """
    model["converted"] = None
    if model["path"] is None:
        file = packaged_file(model["source"])
        if file is not None and model["revision"] is None and not may_be_cached(model["source"]):
            model["converted"] = str(convert(file))
        return
    if model.get("directory") is None and not Path(model["path"]).is_absolute():
        model["directory"] = str(Path.cwd())
    place = Path(model.get("directory") or "", model["path"])
    if place.suffix == ".gguf":
        model["converted"] = str(convert(place))
    model["architecture"] = _architecture_at(Path(model["converted"] or place)).model_dump()
    model["name"] = model["name"] or place.name.removesuffix(".gguf")
    model["source"] = model["source"] or str(model["path"])


def may_be_cached(source: str) -> bool:
    """Whether the hub's cache has some revision of `source`, told without the hub's library, whose
    import costs a plan a third of a second."""
    # As the library places it (huggingface_hub/constants.py).
    caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", caches / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    return any(cache.glob(f"models--{source.replace('/', '--')}/snapshots/*/config.json"))


def _architecture_at(directory: Path) -> Architecture:
    file = directory / "config.json"
    try:
        return architecture_from_config(read_foreign_json(file))
    except OSError as error:
        rule = f"must contain a readable config.json, as save_pretrained writes ({error.strerror})"
        nearest = f"model.path={directory.parent}" if directory.is_file() else ""
        if (directory / ADAPTER).exists():
            rule, nearest = "is an adapter, and not a whole model", MERGED
        elif models := models_in(directory):
            inside = ", ".join(str(model.relative_to(directory)) for model in models[-3:])
            rule, nearest = f"{rule}; models in it: {inside}", f"model.path={models[-1]}"
        elif adapter := next(directory.glob(f"*/{ADAPTER}"), None):
            rule, nearest = f"holds an adapter ({adapter.parent}), and no whole model", MERGED
        raise SettingError("model.path", directory, rule, nearest) from None
    except ValueError as error:
        rule = f"{file} describes no architecture that can be planned: {error}"
        raise SettingError("model.path", directory, rule) from None


# The file by which transformers and PEFT know an adapter, and what to train instead of one.
ADAPTER = "adapter_config.json"
MERGED = "the whole model that PEFT's merge_and_unload() returns, saved by save_pretrained"


def models_in(directory: Path) -> list[Path]:
    """Directories below with a config.json and weights, the one of the highest number last: a
    trainer's checkpoints, snapshots of the hub's cache."""
    places = ("*", "*/*", "models--*/snapshots/*", "hub/models--*/snapshots/*")
    configs = (file for place in places for file in directory.glob(f"{place}/config.json"))
    found = {file.parent for file in configs if any(file.parent.glob("*.safetensors"))}
    numbers = {path: re.search(r"[0-9]{1,18}$", path.name) for path in found}
    return sorted(found, key=lambda p: (int(n[0]) if (n := numbers[p]) else -1, str(p)))


def architecture_from_config(document: Mapping[str, Any]) -> Architecture:
    """The architecture that a Hugging Face `config.json` describes.

    Raises ValueError for a family that is not modelled, a model that brings its own code, weights
    that are quantised, or a value that is missing or none that transformers writes.
    """
    try:
        return _architecture(document)
    except (ArithmeticError, AttributeError, LookupError, TypeError, SettingError) as error:
        raise ValueError(f"one of its values cannot be read ({error})") from None


def _architecture(document: Mapping[str, Any]) -> Architecture:
    family = _family(document)
    if document.get("quantization_config"):
        raise ValueError("its weights are quantised (quantization_config), which are not trained")
    document = {**_LEFT_OUT.get(family, {}), **document}
    numbers: dict[str, Any] = {ours: document.get(theirs) for theirs, ours in _NAMES.items()}
    numbers["num_kv_heads"] = numbers["num_kv_heads"] or numbers["num_heads"]
    missing = [theirs for theirs, ours in _NAMES.items() if theirs not in document]
    missing = [name for name in missing if name != "num_key_value_heads"]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    for name, value in zip(_NAMES, numbers.values(), strict=True):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {json.dumps(value)}, and must be a positive integer")
    head_dim = document.get("head_dim") or numbers["hidden_size"] // numbers["num_heads"]
    settings = {**_biases(document), **_experts(document), **_windows(document)}
    return Architecture(
        **numbers,
        **{**settings, **_FAMILIES[family]},
        head_dim=head_dim,
        tie_word_embeddings=bool(document.get("tie_word_embeddings", False)),
        max_position_embeddings=_positions(document),
    )


def _positions(document: Mapping[str, Any]) -> int | None:
    """The longest sequence, unless rotary angles are scaled: their kinds reach further each in
    its own way."""
    scaled = document.get("rope_scaling") or document.get("rope_parameters") or {}
    if scaled.get("rope_type", scaled.get("type", "default")) != "default":
        return None
    return document.get("max_position_embeddings")


def _family(document: Mapping[str, Any]) -> str:
    family = document.get("model_type")
    if family in _FAMILIES:
        return str(family)
    known = f"is not one of {', '.join(_FAMILIES)}"
    if document.get("auto_map"):
        raise ValueError(
            f"model_type {family!r} is defined by code beside the weights (auto_map), which asks "
            f"for trust_remote_code; isosweep executes no code of a model, and the type {known}"
        )
    if "text_config" in document:
        raise ValueError(f"model_type {family!r} takes more than text; only text models are run")
    raise ValueError(f"model_type {family!r} {known}")


def _biases(document: Mapping[str, Any]) -> dict[str, bool]:
    attention = bool(document.get("attention_bias"))
    return {
        "qkv_bias": attention or bool(document.get("qkv_bias")),
        "output_bias": attention,
        "mlp_bias": bool(document.get("mlp_bias")),
    }


def _experts(document: Mapping[str, Any]) -> dict[str, int]:
    # Older files name the first, newer ones of transformers the second.
    experts = document.get("num_experts") or document.get("num_local_experts")
    if not experts:
        return {}
    layers = document["num_hidden_layers"]
    step = document.get("decoder_sparse_step", 1)
    only_dense = set(document.get("mlp_only_layers") or ())
    sparse = [i for i in range(layers) if i not in only_dense and (i + 1) % step == 0]
    return {
        "num_experts": experts,
        "num_experts_per_token": document["num_experts_per_tok"],
        # Mixtral has no other width.
        "expert_intermediate_size": document.get("moe_intermediate_size")
        or document["intermediate_size"],
        "shared_expert_intermediate_size": document.get("shared_expert_intermediate_size") or 0,
        "num_dense_layers": layers - len(sparse),
    }


def _windows(document: Mapping[str, Any]) -> dict[str, int]:
    """Sliding layers: `layer_types` where it is given, else the families' older switches."""
    window, layers = document.get("sliding_window"), document["num_hidden_layers"]
    if not window:
        return {}
    if document.get("layer_types"):
        sliding = document["layer_types"].count("sliding_attention")
    elif "sliding_window_pattern" in document:
        # Every so many layers one attends to everything.
        sliding = layers - layers // document["sliding_window_pattern"]
    elif "use_sliding_window" in document:
        first = document.get("max_window_layers", layers)
        sliding = max(0, layers - first) if document["use_sliding_window"] else 0
    else:
        sliding = layers
    return {"sliding_window": window, "num_sliding_layers": sliding} if sliding else {}
