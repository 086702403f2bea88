"""Model FLOPs of GRPO, phase by phase, from the architecture and token counts alone.

Conventions (the ones of `torch.utils.flop_counter`, with causal attention counted exactly): a
multiply-add is 2 FLOPs; embedding look-ups, norms, activations and softmax cost nothing; the LM
head counts; attention counts the query-key pairs that are really attended, 4 x heads x head_dim
FLOPs a pair and layer; grouped-query attention changes the projections but not the pairs; the
backward pass is twice the forward pass; recomputation under gradient checkpointing is hardware
cost and not counted. Token counts may be floats (means) or arrays; results follow their shape.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Count = float | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A dense decoder-only transformer with gated MLP (Qwen2, Llama): the numbers FLOPs need."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int

    @property
    def layer_weights(self) -> int:
        """Weights of one layer's linear maps: q, k, v, o and the gated MLP's three."""
        attention = self.hidden_size * self.head_dim * 2 * (self.num_heads + self.num_kv_heads)
        return attention + 3 * self.hidden_size * self.intermediate_size

    @property
    def linear_flops_per_token(self) -> float:
        """FLOPs of all layers' linear maps for one token, forward."""
        return 2.0 * self.num_layers * self.layer_weights

    @property
    def head_flops_per_token(self) -> float:
        """FLOPs of the LM head for one position, forward."""
        return 2.0 * self.hidden_size * self.vocab_size

    @property
    def attention_flops_per_pair(self) -> float:
        """FLOPs of scores and weighted values for one query-key pair, all layers, forward."""
        return 4.0 * self.num_layers * self.num_heads * self.head_dim


def _causal_pairs(tokens: Count) -> Count:
    return tokens * (tokens + 1) / 2


def prefill_flops(arch: Architecture, prompt: Count) -> Count:
    """FLOPs to read one prompt of `prompt` tokens; the head runs on its last position only."""
    return (
        arch.linear_flops_per_token * prompt
        + arch.head_flops_per_token
        + arch.attention_flops_per_pair * _causal_pairs(prompt)
    )


def decode_flops(arch: Architecture, prompt: Count, completion: Count) -> Count:
    """FLOPs to sample `completion` tokens after the prefill, which already gave the first one.

    The other completion - 1 tokens each take one forward pass of one token with the KV cache.
    """
    passes = completion - 1
    pairs = passes * prompt + _causal_pairs(passes)
    per_token = arch.linear_flops_per_token + arch.head_flops_per_token
    return per_token * passes + arch.attention_flops_per_pair * pairs


def forward_flops(arch: Architecture, prompt: Count, completion: Count) -> Count:
    """FLOPs of one log-probability pass over a rollout; the head runs on the completion only."""
    tokens = prompt + completion
    return (
        arch.linear_flops_per_token * tokens
        + arch.head_flops_per_token * completion
        + arch.attention_flops_per_pair * _causal_pairs(tokens)
    )


@dataclass(frozen=True, kw_only=True)
class PhaseFlops:
    """FLOPs by phase. `reference` is 0 for a recipe without KL term."""

    prefill: Count
    decode: Count
    reference: Count
    training: Count

    @property
    def total(self) -> Count:
        return self.prefill + self.decode + self.reference + self.training


def rollout_flops(
    arch: Architecture, prompt: Count, completion: Count, *, reference_model: bool
) -> PhaseFlops:
    """FLOPs of sampling one rollout and training on it once, strictly on-policy.

    Every rollout reads its own prompt (no prefix sharing), as generation with `transformers`
    does. On-policy GRPO needs no old-policy pass. Not counted: evaluation, optimiser update.
    """
    forward = forward_flops(arch, prompt, completion)
    return PhaseFlops(
        prefill=prefill_flops(arch, prompt),
        decode=decode_flops(arch, prompt, completion),
        reference=forward if reference_model else forward * 0.0,
        training=3.0 * forward,
    )
