"""FSDP2 on two gloo processes, sampling by transformers: the run that DDP would have been."""

from pathlib import Path

import pytest

from isosweep.models.weights import weights
from tests.conftest import in_ci
from tests.training.sharded import (
    as_replicated,
    last_checkpoint,
    let_in,
    sharded,
    trained_in_parts,
)

pytestmark = [pytest.mark.train, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)


@pytest.mark.parametrize(
    "layout",
    in_ci(["plain", "kl", "mini-batches and lag", "bfloat16", "bfloat16 weights"], "bfloat16"),
)
def test_a_sharded_run_is_the_replicated_one(layout: str, tmp_path: Path) -> None:
    as_replicated(layout, tmp_path)


@pytest.mark.parametrize("layout", in_ci(("plain", "lora"), "lora"))
def test_a_sharded_run_in_parts_is_the_replicated_one_with_its_weights(
    layout: str, tmp_path: Path
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    runs = as_replicated(layout, tmp_path, train=trained_in_parts)
    loaded = []
    for each in map(last_checkpoint, runs):
        if layout == "lora":
            model = AutoModelForCausalLM.from_pretrained(weights(sharded(layout).model))
            loaded.append(PeftModel.from_pretrained(model, each).state_dict())
        else:
            loaded.append(AutoModelForCausalLM.from_pretrained(each).state_dict())
    ours, theirs = loaded
    assert theirs.keys() == ours.keys()
    assert all(torch.allclose(theirs[name], ours[name], atol=1e-5) for name in theirs)
    assert not (last_checkpoint(runs[0]) / "pytorch_model_fsdp_0").exists()
