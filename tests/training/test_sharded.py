"""FSDP2 on two gloo processes, sampling by transformers: the run that DDP would have been."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from isosweep.config.base import replaced
from isosweep.costs.memory import state_bytes
from isosweep.files import write_json
from isosweep.models.weights import weights
from isosweep.training.distributed import run_ranks
from tests.conftest import in_ci, make_config
from tests.training.sharded import LAYOUTS, TWO, as_replicated, let_in, sharded

pytestmark = [pytest.mark.train, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)


@pytest.mark.parametrize("layout", in_ci(LAYOUTS, "bfloat16", "lora"))
def test_a_sharded_run_is_the_replicated_one(layout: str, tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    runs = as_replicated(layout, tmp_path)
    if "bfloat16" in layout:
        return
    loaded = []
    for run in runs:
        (each,) = run.checkpoints.glob("*/checkpoint-*")
        assert not (each / "pytorch_model_fsdp_0").exists()
        if layout == "lora":
            model = AutoModelForCausalLM.from_pretrained(weights(sharded(layout).model))
            loaded.append(PeftModel.from_pretrained(model, each).state_dict())
        else:
            loaded.append(AutoModelForCausalLM.from_pretrained(each).state_dict())
    ours, theirs = loaded
    assert theirs.keys() == ours.keys()
    assert all(torch.allclose(theirs[name], ours[name], atol=1e-5) for name in theirs)


def test_each_process_holds_what_is_planned_and_sums_gradients_in_float32(tmp_path: Path) -> None:
    layouts = ("kl", "bfloat16", "bfloat16 weights", "lora")
    files = [tmp_path / f"spec-{number}.json" for number in range(len(layouts))]
    for file, layout in zip(files, layouts, strict=True):
        write_json(file, sharded(layout).to_json())
    words = ["-m", "tests.training.sharded", str(tmp_path), *map(str, files)]
    assert run_ranks(2, words, []) == [0, 0]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for layout, *found in zip(layouts, *ranks, strict=True):
        config = make_config(*TWO, *LAYOUTS[layout])
        hardware = replaced(config.hardware, device="cuda", sharding="fsdp")
        planned = state_bytes(config.model.architecture, config.recipe, hardware)
        for name, most in asdict(planned).items():
            measured = max(rank[name] for rank in found)
            assert measured == pytest.approx(most, rel=0.1), (layout, name)
        assert {rank["summed in"] for rank in found} == {"torch.float32"}, layout
