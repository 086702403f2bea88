"""Transformer architectures: the numbers that parameters, FLOPs, memory and time follow from."""

from typing import Annotated

from isosweep.config.base import Settings
from isosweep.config.identity import OUTSIDE
from isosweep.config.values import NonNegativeInt, PositiveInt
from isosweep.errors import SettingError


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
    qkv_bias: bool = False
    """Biases of q, k and v; they change parameter counts alone."""
    qk_norm: bool = False
    """RMS norms of q and k; they change parameter counts alone."""
    wide_qk_norm: bool = False
    """Whether those norms span all heads of a layer (OLMo 2), rather than one head."""
    output_bias: bool = False
    """Bias of o; it changes parameter counts alone."""
    mlp_bias: bool = False
    """Biases of the gated MLP; they change parameter counts alone."""
    norms_per_layer: PositiveInt = 2
    """RMS norms of the residual stream in a layer; 4 in Gemma 2 and 3."""
    fused_projections: bool = False
    """Whether q, k and v are one linear map, and gate and up another (Phi-3). LoRA then has one
    adapter for each map."""
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
        """All parameters; a tied head is counted once, as transformers counts it."""
        per_layer = self.norms_per_layer * self.hidden_size
        if self.qkv_bias:
            per_layer += self.head_dim * (self.num_heads + 2 * self.num_kv_heads)
        if self.output_bias:
            per_layer += self.hidden_size
        if self.mlp_bias:
            per_layer += 2 * self.intermediate_size + self.hidden_size
        if self.qk_norm:
            heads = self.num_heads + self.num_kv_heads if self.wide_qk_norm else 2
            per_layer += heads * self.head_dim
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


def adapter_weights(arch: Architecture, rank: int) -> int:
    """Weights of rank-`rank` adapters on every linear map of the layers, experts left out."""
    h, q, kv = arch.hidden_size, arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    fused = arch.fused_projections
    attention = (h + q) + (h + q + 2 * kv if fused else (h + q) + 2 * (h + kv))

    def mlp(width: int) -> int:
        return (h + 2 * width if fused else 2 * (h + width)) + (h + width)

    shared = arch.shared_expert_intermediate_size
    always = mlp(shared) + h + 1 if shared else 0
    moe = arch.num_moe_layers
    dense = (arch.num_layers - moe) * mlp(arch.intermediate_size)
    return rank * (arch.num_layers * attention + dense + moe * always)
