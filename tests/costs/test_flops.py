"""FLOPs against torch's own counter on real models, and published anchors."""

from typing import Any

import numpy as np
import pytest

from isosweep.config.model import Architecture, architecture_from_config
from isosweep.costs.flops import (
    Passes,
    attention_flops,
    decode_flops,
    forward_flops,
    head_flops_per_token,
    linear_flops_per_token,
    prefill_flops,
    rollout_flops,
)
from tests.conftest import make_config
from tests.models.families import FAMILIES, SIZES, configuration, language_model

MIXTURES = ("Qwen3Moe", "Qwen2Moe", "Mixtral")


def shipped(*overrides: str) -> Architecture:
    return make_config(*overrides).model.architecture


def _model(family: str) -> tuple[Any, Architecture]:
    # The counter sees neither fused attention nor grouped matrix products.
    plain = {"attn_implementation": "eager"}
    if family in MIXTURES:
        plain["experts_implementation"] = "eager"
    config = configuration(family, **plain)
    return language_model(config).eval(), architecture_from_config(config.to_dict())


def _counted(function: Any) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def _rotary(family: str, arch: Architecture, tokens: int) -> int:
    """What the counter sees of rotary angles, which we leave out: an outer product of head_dim / 2
    frequencies with the positions, 2 FLOPs each, once a forward pass; in Gemma 3, which has
    others for sliding layers, twice."""
    return arch.head_dim * tokens * (2 if family == "Gemma3Text" else 1)


def _close(ours: float, counted: float, family: str) -> bool:
    """Equal to the FLOP for dense models, within 0.1% for a mixture of experts."""
    return abs(ours / counted - 1) < 1e-3 if family in MIXTURES else ours == counted


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_and_backward_cost_what_torch_counts(family: str) -> None:
    import torch

    model, arch = _model(family)
    prompt, completion = 9, 15
    ids = torch.randint(0, arch.vocab_size, (1, prompt + completion))

    def forward() -> Any:
        return model(input_ids=ids, logits_to_keep=completion).logits

    counted = _counted(forward)
    ours = float(forward_flops(arch, prompt, completion, pairs="square"))
    rotary = _rotary(family, arch, prompt + completion)
    assert _close(ours + rotary, counted, family)
    both = _counted(lambda: forward().sum().backward())
    # Backward is twice the forward; rotary angles take no gradient.
    assert _close(3 * ours + rotary, both, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_costs_what_torch_counts(family: str) -> None:
    import torch

    model, arch = _model(family)
    prompt, completion = 10, 7
    ids = torch.randint(0, arch.vocab_size, (1, prompt))
    mask = torch.ones_like(ids)

    def generate(tokens: int) -> Any:
        return model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False
        )

    first = _counted(lambda: generate(1))
    prefill = float(prefill_flops(arch, prompt, pairs="square"))
    assert _close(prefill + _rotary(family, arch, prompt), first, family)
    rest = _counted(lambda: generate(completion)) - first
    decoding = float(decode_flops(arch, prompt, completion)) + _rotary(family, arch, completion - 1)
    assert _close(decoding, rest, family)


def test_a_sliding_window_counts_the_pairs_that_its_mask_leaves() -> None:
    window, tokens = 5, 12
    settings = {**SIZES, "sliding_window": window, "model_type": "mistral"}
    windowed = architecture_from_config(settings)
    assert windowed.num_sliding_layers == windowed.num_layers
    pairs = sum(min(i + 1, window) for i in range(tokens))
    per_pair = 4 * windowed.num_layers * windowed.num_heads * windowed.head_dim
    assert attention_flops(windowed, tokens) == per_pair * pairs
    several = np.asarray(attention_flops(windowed, np.array([2.0, 12.0])))
    assert several.tolist() == [per_pair * 3, per_pair * pairs]


# One token short of a block, a block whole, one token more; and further blocks.
@pytest.mark.parametrize("prompt", [1, 15, 16, 17, 32, 33, 100])
def test_n_rollouts_read_what_no_block_shares_n_times(prompt: int) -> None:
    arch, n, block = shipped("model=qwen-0.5b"), 8, 16
    per_pair = 4.0 * arch.num_layers * arch.num_heads * arch.head_dim
    # As an engine schedules them: each finds the blocks of those before it, and reads the rest.
    cached, total = 0, 0.0
    for _ in range(n):
        # The logits of the last token are always computed.
        found = max(blocks for blocks in range(0, cached + 1, block) if blocks < prompt)
        read = range(found, prompt)
        pairs = sum(at + 1 for at in read)
        total += linear_flops_per_token(arch) * len(read) + per_pair * pairs
        total += head_flops_per_token(arch)
        cached = prompt // block * block
    shared = Passes(prompt_sharing=float(n), block_tokens=block)
    assert n * float(rollout_flops(arch, prompt, 7, shared).prefill) == pytest.approx(total)
    alone = n * float(rollout_flops(arch, prompt, 7, Passes(block_tokens=block)).prefill)
    assert alone > total if prompt > block else alone == pytest.approx(total)
