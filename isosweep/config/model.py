"""The policy to train: its settings, its shape, and the shape that a config.json describes."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from isosweep.config.base import NonNegativeInt, PositiveInt, Settings, load
from isosweep.config.identity import OUTSIDE
from isosweep.errors import SettingError
from isosweep.files import read_foreign_json
from isosweep.gguf import convert, packaged_file


class Architecture(Settings, group="model.architecture"):
    """A decoder-only transformer with gated MLP and RMS norms: Qwen, Llama, Gemma and their kin."""

    hidden_size: PositiveInt
    """Width of the residual stream."""
    num_layers: PositiveInt
    """Transformer layers."""
    num_heads: PositiveInt
    """Attention heads of a layer."""
    num_kv_heads: PositiveInt
    """Key and value heads of a layer; they divide `num_heads`."""
    head_dim: PositiveInt
    """Width of one head."""
    intermediate_size: PositiveInt
    """Width of the gated MLP of a dense layer."""
    vocab_size: PositiveInt
    """Tokens of the vocabulary, padding rows included."""
    tie_word_embeddings: bool = False
    """The head shares the embedding's weights."""
    qk_norm: bool = False
    """RMS norms of q and k, which keep activations of their own."""
    num_experts: NonNegativeInt = 0
    """Experts in a layer of a mixture of experts; 0: every layer is dense."""
    num_experts_per_token: NonNegativeInt = 0
    """Experts that each token uses."""
    expert_intermediate_size: NonNegativeInt = 0
    """Width of one expert's gated MLP."""
    shared_expert_intermediate_size: NonNegativeInt = 0
    """Width of the expert that every token uses besides; 0: none."""
    num_dense_layers: NonNegativeInt = 0
    """Layers without experts in a mixture of experts."""
    sliding_window: PositiveInt | None = None
    """Tokens that a sliding-window layer attends to."""
    num_sliding_layers: NonNegativeInt = 0
    """Layers that attend only to the last `sliding_window` tokens."""

    max_position_embeddings: Annotated[PositiveInt | None, OUTSIDE] = None
    """Longest sequence of the model, in tokens; null: unknown."""

    def _check(self) -> None:
        group = "model.architecture"
        if self.num_heads % self.num_kv_heads:
            rule = f"must divide num_heads={self.num_heads}"
            raise SettingError(f"{group}.num_kv_heads", self.num_kv_heads, rule)
        if not self.num_experts:
            return
        name, several = f"{group}.num_experts_per_token", self.num_experts_per_token
        if not 1 <= several <= self.num_experts:
            rule = f"must lie between 1 and num_experts={self.num_experts}"
            raise SettingError(name, several, rule)
        name, size = f"{group}.expert_intermediate_size", self.expert_intermediate_size
        if size < 1:
            raise SettingError(name, size, "must be greater than 0")

    @property
    def attention_weights(self) -> int:
        """Weights of one layer's q, k, v and o."""
        return self.hidden_size * self.head_dim * 2 * (self.num_heads + self.num_kv_heads)

    @property
    def num_moe_layers(self) -> int:
        """Layers with routed experts; 0 for a dense model."""
        return self.num_layers - self.num_dense_layers if self.num_experts else 0

    @property
    def layer_weights(self) -> int:
        """Weights of all layers' linear maps: attention, gated MLPs, every expert, routers."""
        return self._layers(self.num_experts)

    @property
    def active_layer_weights(self) -> int:
        """Of `layer_weights` those that one token passes through."""
        return self._layers(self.num_experts_per_token)

    def _layers(self, experts: int) -> int:
        moe, h = self.num_moe_layers, self.hidden_size
        dense = (self.num_layers - moe) * 3 * h * self.intermediate_size
        routed = 3 * h * self.expert_intermediate_size * experts + h * self.num_experts
        shared = self.shared_expert_intermediate_size
        # A shared expert has a gate of one number.
        always = 3 * h * shared + h if shared else 0
        return self.num_layers * self.attention_weights + dense + moe * (routed + always)

    @property
    def parameters(self) -> int:
        """Weights of all maps and embeddings, a tied head counted once, and two norms a layer.

        Biases and further norms are left out: less than 0.1% of any published model.
        """
        return (
            self.layer_weights
            + self.num_layers * 2 * self.hidden_size
            + self.embedding_weights * (1 if self.tie_word_embeddings else 2)
            + self.hidden_size
        )

    @property
    def embedding_weights(self) -> int:
        """Weights of the embedding, which are as many as the head's."""
        return self.vocab_size * self.hidden_size

    @property
    def active_parameters(self) -> int:
        """The N of 6N approximations: weights that multiply a token, the head included."""
        return self.active_layer_weights + self.embedding_weights


def adapter_weights(arch: Architecture, rank: int) -> int:
    """Weights of rank-`rank` adapters on every linear map of the layers, experts left out.

    Maps that a family fuses (q, k and v in Phi-3) are counted one by one.
    """
    h, q, kv = arch.hidden_size, arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    attention = 2 * (h + q) + 2 * (h + kv)
    shared = arch.shared_expert_intermediate_size
    always = 3 * (h + shared) + h + 1 if shared else 0
    moe = arch.num_moe_layers
    dense = (arch.num_layers - moe) * 3 * (h + arch.intermediate_size)
    return rank * (arch.num_layers * attention + dense + moe * always)


BUILTIN_MODEL = "builtin"


class ModelConfig(Settings, group="model"):
    """The model that is trained."""

    name: Annotated[str, OUTSIDE]
    """Name in tables and run names."""
    source: str
    """`builtin` (shipped with isosweep), or a name on the Hugging Face hub."""
    path: str | None = None
    """Directory with weights, or one GGUF file, in place of `source`. Its config.json sets the
    architecture."""
    # Where a model lies changes no number; `path`, as it was typed, has always taken part.
    directory: Annotated[str | None, OUTSIDE] = None
    """Directory that a relative `path` starts from, filled in when the settings are read."""
    converted: Annotated[str | None, OUTSIDE] = None
    """Directory that a GGUF file was converted to, filled in when the settings are read."""
    revision: str | None = None
    """Revision of a hub model; null: the newest."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the chat template, such as {enable_thinking: false} for Qwen3; in training,
    evaluation and `mode=difficulty`."""
    system_prompt: str | None = None
    """First message of every conversation; null: only what the template adds."""
    architecture: Architecture
    """The shape that costs are computed from."""

    @property
    def location(self) -> Path | None:
        """Directory to load weights from, wherever this process works; None: the hub's."""
        if self.converted is not None:
            return Path(self.converted)
        return None if self.path is None else Path(self.directory or "", self.path)

    @property
    def asks_for_a_template(self) -> bool:
        """Whether a setting acts through the chat template alone."""
        return bool(self.chat_template_kwargs) or self.system_prompt is not None


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
    "smollm3": {"tie_word_embeddings": True, "use_sliding_window": False},
}
_FAMILIES = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma"),
    *("gemma2", "gemma3_text", "phi3", "olmo2", "smollm3", "granite"),
)
# Those that normalise q and k, without a word in their config.json.
_WITH_QK_NORM = ("qwen3", "qwen3_moe", "gemma3_text", "olmo2")


def read_model(model: dict[str, Any]) -> None:
    """Give the settings of a model that lies at `model.path` the architecture found there, the
    directory that a relative path starts from, and where a GGUF file was converted to: also that
    of a package, for a model of the hub that is not in its cache.

    Raises SettingError where no architecture is found, or the file cannot be converted.
    """
    model["converted"] = None
    if model["path"] is None and model["source"] is None:
        raise SettingError("model.path", "null", "has to be given: a directory or a GGUF file")
    if model["path"] is None:
        source, revision = model["source"], model["revision"]
        file = packaged_file(source)
        if file is not None and revision is None and not may_be_cached(source):
            model["converted"] = str(convert(file))
        if model.get("architecture") is None:
            place = next(_cached(source, revision or "*"), Path(source))
            model["architecture"] = _architecture_at(place).model_dump()
        return
    if model.get("directory") is None and not Path(model["path"]).is_absolute():
        model["directory"] = str(Path.cwd())
    place = Path(model.get("directory") or "", model["path"])
    if place.suffix == ".gguf":
        model["converted"] = str(convert(place))
    model["architecture"] = _architecture_at(
        Path(model["converted"] or place), model["path"]
    ).model_dump()
    model["name"] = model["name"] or place.name.removesuffix(".gguf")
    model["source"] = model["source"] or str(model["path"])


def may_be_cached(source: str) -> bool:
    """Whether the hub's cache has some revision of `source`, told without the hub's library, whose
    import costs a plan a third of a second."""
    return any(_cached(source))


def _cached(source: str, revision: str = "*") -> Iterator[Path]:
    """Directories of the hub's cache with a config.json of the model."""
    # As the library places it (huggingface_hub/constants.py).
    caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", caches / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    found = cache.glob(f"models--{source.replace('/', '--')}/snapshots/{revision}/config.json")
    return (file.parent for file in found)


def _architecture_at(directory: Path, given: str = "") -> Architecture:
    file = directory / "config.json"
    try:
        return architecture_from_config(read_foreign_json(file))
    except OSError as error:
        rule = f"must contain a readable config.json, as save_pretrained writes ({error.strerror})"
        nearest = f"model.path={directory.parent}" if directory.is_file() else ""
        if re.fullmatch(r"[\w.-]+/[\w.-]+", given) and not directory.exists():
            nearest = f"model={given}, after: hf download {given}"
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
    return load(
        Architecture,
        {
            **numbers,
            **_experts(document),
            **_windows(document),
            "qk_norm": family in _WITH_QK_NORM,
            "head_dim": head_dim,
            "tie_word_embeddings": bool(document.get("tie_word_embeddings", False)),
            "max_position_embeddings": _positions(document),
        },
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
