"""What a micro-batch holds: the plan against the storages that are alive in a step of TRL's."""

from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.config.hardware import Precision
from isosweep.costs.activations import generating_bytes, training_bytes

pytestmark = pytest.mark.train

PROMPT = 24
# What changes what is saved: family, precisions, and settings.
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "qwen2": ("Qwen2", {}, ()),
    "qwen3": ("Qwen3", {}, ()),
    "llama, tied": ("Llama", {}, ()),
    "bfloat16 weights": ("Qwen3", {"weights": "bfloat16"}, ()),
    "float32": ("Qwen2", {"computed": "float32"}, ()),
    "lora": ("Qwen2", {"weights": "bfloat16"}, ("recipe.lora_rank=4",)),
    "float32 head": ("Qwen3", {}, ("recipe.cast_lm_head_to_fp32=true",)),
    "entropy bonus": ("Llama", {}, ("recipe.entropy_coef=0.01",)),
    "cispo": ("Qwen2", {"weights": "bfloat16"}, ("recipe.loss_type=cispo",)),
}
ON = "hardware.gradient_checkpointing=true"


@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("case", CASES)
def test_the_most_that_a_step_holds_is_planned(
    case: str, checkpointing: bool, tmp_path: Path
) -> None:
    from tests.costs.accounts import Scaled

    family, precisions, overrides = CASES[case]
    scaled = Scaled(tmp_path, family, *overrides, *[ON][: int(checkpointing)], **precisions)
    for rows, completion in ((1, 80), (3, 110)):
        recipe = replaced(scaled.recipe, micro_batch=rows)
        one = training_bytes(
            scaled.arch, recipe, scaled.hardware, prompt=PROMPT, completion=completion
        )
        planned = one.fixed + rows * one.per_completion
        most = scaled.most(rows, completion)
        # An upper bound: a tile of logits and a layer's activations need not be there at once.
        assert 0.95 * most < planned < 1.2 * most


@pytest.mark.parametrize("prompt", [8, 80], ids=["decoding", "reading"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_generation_holds_what_is_planned(
    precision: Precision, prompt: int, tmp_path: Path
) -> None:
    from tests.costs.accounts import Scaled

    scaled = Scaled(tmp_path, "Qwen2", weights=precision, computed=precision)
    few, many = (scaled.generated(rows, prompt, 84 - prompt) for rows in (4, 12))
    planned = generating_bytes(
        scaled.arch, scaled.recipe, scaled.hardware, prompt=prompt, completion=84 - prompt
    )
    assert planned == pytest.approx((many - few) / 8, rel=0.1)


def test_tiles_without_triton_are_planned(tmp_path: Path) -> None:
    from tests.costs.accounts import Scaled

    scaled, rows, completion = Scaled(tmp_path, "Qwen2", computed="float32"), 2, 60
    hardware = replaced(scaled.hardware, device="cpu")
    recipe = replaced(scaled.recipe, micro_batch=rows)
    one = training_bytes(scaled.arch, recipe, hardware, prompt=PROMPT, completion=completion)
    most = scaled.most(rows, completion, triton=False)
    assert 0.95 * most < one.fixed + rows * one.per_completion < 1.2 * most
