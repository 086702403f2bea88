"""FLOPs against torch's own counter on a real model."""

from typing import Any

from isosweep.flops import decode_flops, forward_flops, prefill_flops
from tests.conftest import make_config

ARCH = make_config().model.architecture
# The counter also sees the rotary angles, an outer product of head_dim / 2 frequencies with the
# positions: no work of the model's, and 2 x head_dim / 2 FLOPs a token.
ROTARY_PER_TOKEN = ARCH.head_dim


def _model() -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=ARCH.vocab_size,
            hidden_size=ARCH.hidden_size,
            intermediate_size=ARCH.intermediate_size,
            num_hidden_layers=ARCH.num_layers,
            num_attention_heads=ARCH.num_heads,
            num_key_value_heads=ARCH.num_kv_heads,
            attn_implementation="eager",
            eos_token_id=None,
        )
    ).eval()


def _counted(function: Any) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def test_a_forward_pass_costs_what_torch_counts_up_to_its_full_attention_square() -> None:
    import torch

    model, S = _model(), 24
    ids = torch.randint(0, ARCH.vocab_size, (1, S))
    counted = _counted(lambda: model(input_ids=ids))
    # The counter sees the whole S x S square, ours the S (S + 1) / 2 attended pairs; our head
    # runs on completions only.
    square = ARCH.attention_flops_per_pair * (S * S - S * (S + 1) / 2)
    assert forward_flops(ARCH, 0, S) + square + ROTARY_PER_TOKEN * S == counted


def test_generation_costs_what_torch_counts() -> None:
    import torch

    model, P, K = _model(), 10, 7
    ids = torch.randint(0, ARCH.vocab_size, (1, P))
    mask = torch.ones_like(ids)
    counted = _counted(
        lambda: model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=K, do_sample=False, pad_token_id=0
        )
    )
    square = ARCH.attention_flops_per_pair * (P * P - P * (P + 1) / 2)
    rotary = ROTARY_PER_TOKEN * (P + K - 1)
    assert prefill_flops(ARCH, P) + decode_flops(ARCH, P, K) + square + rotary == counted
