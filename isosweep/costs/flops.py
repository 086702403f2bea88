"""Model FLOPs of GRPO, phase by phase, from the architecture and token counts alone.

Conventions, those of `torch.utils.flop_counter` but for attention: a multiply-add is 2 FLOPs;
embedding look-ups, norms, activations, rotary angles and softmax cost nothing; the LM head
counts, on the last position of a prompt and on completions; an attention pair costs 4 x heads x
head_dim FLOPs a layer; grouped-query attention changes the projections but not the pairs; of a
mixture of experts the router and the experts that a token is sent to count; the backward pass is
twice the forward pass. Attention counts the pairs that a causal mask (and a sliding window)
leaves; the counter sees the whole square, and `pairs="square"` agrees with it. What devices compute
besides, on padding and twice, is in `hardware_flops`. Token counts may be floats (means) or arrays;
results follow their shape.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isosweep.config.model import Architecture

Count = float | NDArray[np.float64]
Pairs = Literal["attended", "square"]


def linear_flops_per_token(arch: Architecture) -> float:
    """FLOPs of all layers' linear maps (active experts and routers) for one token, forward."""
    return 2.0 * arch.active_layer_weights


def head_flops_per_token(arch: Architecture) -> float:
    """FLOPs of the LM head for one position, forward; a tied head costs the same."""
    return 2.0 * arch.hidden_size * arch.vocab_size


def attention_flops(arch: Architecture, tokens: Count, pairs: Pairs = "attended") -> Count:
    """FLOPs of scores and weighted values over a sequence of `tokens`, all layers, forward."""
    per_pair = 4.0 * arch.num_heads * arch.head_dim
    if pairs == "square":
        return per_pair * arch.num_layers * tokens * tokens
    every = arch.num_layers * tokens * (tokens + 1) / 2
    if arch.sliding_window is not None:
        # Each token past the window leaves out one pair more than the token before it.
        beyond = np.maximum(tokens - arch.sliding_window, 0.0)
        every = every - arch.num_sliding_layers * beyond * (beyond + 1) / 2
    return per_pair * every


def prefill_flops(arch: Architecture, prompt: Count, pairs: Pairs = "attended") -> Count:
    """FLOPs to read one prompt of `prompt` tokens; the head runs on its last position only."""
    return (
        linear_flops_per_token(arch) * prompt
        + head_flops_per_token(arch)
        + attention_flops(arch, prompt, pairs)
    )


def decode_flops(arch: Architecture, prompt: Count, completion: Count) -> Count:
    """FLOPs to sample `completion` tokens after the prefill, which already gave the first one.

    The other completion - 1 tokens each take one forward pass of one token with the KV cache,
    which attends exactly the cached pairs.
    """
    passes = completion - 1
    per_token = linear_flops_per_token(arch) + head_flops_per_token(arch)
    attention = attention_flops(arch, prompt + passes) - attention_flops(arch, prompt)
    return per_token * passes + attention


def forward_flops(
    arch: Architecture, prompt: Count, completion: Count, pairs: Pairs = "attended"
) -> Count:
    """FLOPs of one log-probability pass over a rollout; the head runs on the completion only."""
    tokens = prompt + completion
    return (
        linear_flops_per_token(arch) * tokens
        + head_flops_per_token(arch) * completion
        + attention_flops(arch, tokens, pairs)
    )


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Which passes a recipe and its generation backend make over each rollout.

    `prompt_sharing`: rollouts of one prompt that share what is cached of it: n with prefix caching,
    else 1. `block_tokens`: a prompt is cached in whole blocks of so many tokens.
    `old_policy`: log-probabilities are computed again before the update, because the sampler's
    are not the learner's (vLLM with importance-sampling correction) or the rollouts are used
    more than once. `reference`: a KL term needs a frozen model's. `num_iterations`: updates made
    with each rollout. `draws`: rollouts sampled for each that updates are made with.
    `adapter_weights`: of LoRA's adapters, beside which the rest is frozen: its linear maps have no
    gradient of their own to compute. `adapted_sampling`: the sampler runs the adapters as such.
    """

    prompt_sharing: Count = 1.0
    block_tokens: int = 1
    old_policy: bool = False
    reference: bool = False
    num_iterations: int = 1
    draws: float = 1.0
    adapter_weights: int = 0
    adapted_sampling: bool = False

    @property
    def scoring(self) -> float:
        """Log-probability passes before the updates."""
        return float(self.old_policy) + float(self.reference)


@dataclass(frozen=True, kw_only=True)
class PhaseFlops:
    """FLOPs by phase; 0 for a pass that is not made."""

    prefill: Count
    decode: Count
    old_policy: Count
    reference: Count
    training: Count

    @property
    def total(self) -> Count:
        """FLOPs of all phases together."""
        return self.prefill + self.decode + self.old_policy + self.reference + self.training


def rollout_flops(
    arch: Architecture, prompt: Count, completion: Count, passes: Passes
) -> PhaseFlops:
    """FLOPs of one rollout that is trained on: of sampling it, and of the `passes` over it.

    Of a prompt whose cache is shared, the mean of its rollouts: the first reads all of it, the
    others what lies beyond its whole blocks. The last token is never shared, since its logits are
    needed (vLLM 0.31, v1/core/kv_cache_manager.py, get_computed_blocks); what is cached is assumed
    to stay until the last rollout has begun. Not counted: evaluation, the optimiser's update.
    """
    tokens = prompt + completion
    forward = forward_flops(arch, prompt, completion)
    adapters = 2.0 * passes.adapter_weights * tokens
    update = 3.0 * (forward + adapters)
    if passes.adapter_weights:
        # Attention has no weights: its backward pass is whole. Before the first layer's adapters
        # nothing learns: no gradient is sent on to the embedding.
        update = update - (forward - attention_flops(arch, tokens)) - _first_maps(arch) * tokens
    sampling = 2.0 * passes.adapter_weights * float(passes.adapted_sampling)
    shared = np.floor(np.maximum(prompt - 1, 0) / passes.block_tokens) * passes.block_tokens
    spared = (linear_flops_per_token(arch) + sampling) * shared + attention_flops(arch, shared)
    prefill = prefill_flops(arch, prompt) + sampling * prompt
    prefill = prefill - (1 - 1 / passes.prompt_sharing) * spared
    decode = decode_flops(arch, prompt, completion) + sampling * (completion - 1)
    return PhaseFlops(
        prefill=passes.draws * prefill,
        decode=passes.draws * decode,
        old_policy=(forward + adapters) * float(passes.old_policy),
        reference=forward * float(passes.reference),
        training=update * passes.num_iterations,
    )


@dataclass(frozen=True, kw_only=True)
class HardwareFlops:
    """FLOPs that a device computes for one row: of one log-probability pass, of all updates."""

    scoring: Count
    training: Count


def hardware_flops(
    arch: Architecture,
    passes: Passes,
    *,
    prompt: Count,
    completion: Count,
    answer: Count,
    checkpointing: bool,
    pairs: Pairs = "square",
) -> HardwareFlops:
    """FLOPs that a device computes for one row of a micro-batch that is padded to these lengths.

    `answer`: tokens of the row's own completion. TRL's fused LM head (1.16, trl/kernels/
    chunked_logprob.py) runs on those alone, and computes its logits again in the backward pass.
    Attention is SDPA's under a mask: the whole square, and five products of it backward, scores
    again among them, for two forward (the formulas of `torch.utils.flop_counter`); SDPA leaves out
    half where nothing of a micro-batch is padded, and flash attention always: `pairs="attended"`.
    Checkpointing computes each layer again up to its last saved tensor: all but a gated MLP's last
    map (torch.utils.checkpoint stops early).
    """
    tokens = prompt + completion
    linear = linear_flops_per_token(arch) * tokens
    head = head_flops_per_token(arch) * answer
    attention = attention_flops(arch, tokens, pairs)
    adapters = 2.0 * passes.adapter_weights * tokens
    update = 3.0 * (linear + adapters) + 3.5 * attention + 4.0 * head
    if passes.adapter_weights:
        update = update - linear - head
        if not checkpointing:
            update = update - _first_maps(arch) * tokens
    if checkpointing:
        update = update + linear + adapters + attention
        if not passes.adapter_weights:
            dense = arch.num_layers - arch.num_moe_layers
            update = update - 2.0 * dense * arch.hidden_size * arch.intermediate_size * tokens
    # The reference model has no adapters.
    adapted = passes.old_policy / passes.scoring if passes.scoring else 1.0
    return HardwareFlops(
        scoring=linear + head + attention + adapters * adapted,
        training=update * passes.num_iterations,
    )


def attention_pairs(attention: str) -> Pairs:
    """Which pairs the kernels `attention` (transformers' name) compute."""
    return "attended" if attention.startswith("flash") else "square"


def _first_maps(arch: Architecture) -> float:
    """FLOPs of the first layer's q, k and v for one token: of a gradient that goes no further."""
    heads = arch.num_heads + 2 * arch.num_kv_heads
    return 2.0 * arch.hidden_size * heads * arch.head_dim
