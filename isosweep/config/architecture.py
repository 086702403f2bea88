"""Transformer architectures: the numbers that parameters, FLOPs, memory and time follow from."""

import math
from collections.abc import Mapping
from typing import Any

from isosweep.config.settings import settings
from isosweep.config.values import NonNegativeInt, PositiveInt
from isosweep.errors import SettingError


@settings("model.architecture")
class Architecture:
    """A decoder-only transformer with gated MLP and RMS norms: Qwen2, Qwen3, Llama, Mistral."""

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
    qkv_bias: bool = False
    """Biases of q, k and v; they change parameter counts alone."""
    qk_norm: bool = False
    """RMS norms of q and k; they change parameter counts alone."""
    num_experts: NonNegativeInt = 0
    """Experts of a mixture's layer; 0: every layer is dense."""
    num_experts_per_token: NonNegativeInt = 0
    """Experts that a token is sent to."""
    expert_intermediate_size: NonNegativeInt = 0
    """Width of one expert's gated MLP."""
    num_dense_layers: NonNegativeInt = 0
    """Layers of a mixture that have no experts."""
    sliding_window: PositiveInt | None = None
    """Tokens that a sliding layer attends to, the last ones."""
    num_sliding_layers: NonNegativeInt = 0
    """Layers that attend to the last `sliding_window` tokens only."""

    def __post_init__(self) -> None:
        group = "model.architecture"
        if self.num_heads % self.num_kv_heads:
            nearest = math.gcd(self.num_heads, self.num_kv_heads)
            rule = f"must divide num_heads={self.num_heads}"
            name = f"{group}.num_kv_heads"
            raise SettingError(name, self.num_kv_heads, rule, f"{name}={nearest}")
        if not self.num_experts:
            return
        name, several = f"{group}.num_experts_per_token", self.num_experts_per_token
        if not 1 <= several <= self.num_experts:
            rule = f"must lie between 1 and num_experts={self.num_experts}"
            raise SettingError(name, several, rule, f"{name}=1")
        name, size = f"{group}.expert_intermediate_size", self.expert_intermediate_size
        if size < 1:
            raise SettingError(name, size, "must be a finite number above 0", f"{name}=1")

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
        routed = moe * (3 * h * self.expert_intermediate_size * experts + h * self.num_experts)
        return self.num_layers * self.attention_weights + dense + routed

    @property
    def parameters(self) -> int:
        """All parameters; a tied head is counted once, as transformers counts it."""
        per_layer = 2 * self.hidden_size
        if self.qkv_bias:
            per_layer += self.head_dim * (self.num_heads + 2 * self.num_kv_heads)
        if self.qk_norm:
            per_layer += 2 * self.head_dim
        return (
            self.layer_weights
            + self.num_layers * per_layer
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


# Names in a Hugging Face config.json and ours.
_NAMES = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
}
# What the architectures of `model_type` imply without a word in their config.json.
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True},
}


def architecture_from_config(document: Mapping[str, Any]) -> Architecture:
    """The architecture that a Hugging Face `config.json` describes.

    Raises ValueError for a family that is not modelled or a number that is missing.
    """
    family = document.get("model_type")
    if family not in _FAMILIES:
        raise ValueError(f"model_type {family!r} is not one of {', '.join(_FAMILIES)}")
    missing = [name for name in _NAMES if name not in document and name != "num_key_value_heads"]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    numbers = {ours: document[theirs] for theirs, ours in _NAMES.items() if theirs in document}
    numbers.setdefault("num_kv_heads", numbers["num_heads"])
    head_dim = document.get("head_dim") or numbers["hidden_size"] // numbers["num_heads"]
    settings = {**_FAMILIES[family], **_experts(document), **_windows(document)}
    if family == "llama" and document.get("attention_bias"):
        raise ValueError("attention_bias=true is not modelled")
    return Architecture(
        **numbers,
        **settings,
        head_dim=head_dim,
        tie_word_embeddings=bool(document.get("tie_word_embeddings", False)),
    )


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
        "expert_intermediate_size": document["moe_intermediate_size"],
        "num_dense_layers": layers - len(sparse),
    }


def _windows(document: Mapping[str, Any]) -> dict[str, int]:
    """Sliding layers: `layer_types` where it is given, else Qwen's and Mistral's older switches."""
    window, layers = document.get("sliding_window"), document["num_hidden_layers"]
    if not window:
        return {}
    if document.get("layer_types"):
        sliding = document["layer_types"].count("sliding_attention")
    elif "use_sliding_window" in document:
        first = document.get("max_window_layers", layers)
        sliding = max(0, layers - first) if document["use_sliding_window"] else 0
    else:
        sliding = layers
    return {"sliding_window": window, "num_sliding_layers": sliding} if sliding else {}


def adapter_weights(arch: Architecture, rank: int) -> int:
    """Weights of rank-`rank` adapters on every linear map of the layers, experts left out."""
    h, q, kv = arch.hidden_size, arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    ends = 2 * (h + q) + 2 * (h + kv)
    if not arch.num_experts:
        ends += 3 * (h + arch.intermediate_size)
    return arch.num_layers * rank * ends
