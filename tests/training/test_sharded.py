"""FSDP2 on two gloo processes, sampling by transformers: the run that DDP would have been."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.hardware import Shared
from isosweep.costs.memory import state_bytes
from isosweep.models.weights import weights
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.training.builders import prepared, trained
from tests.training.sharded import (
    BUDGETS,
    FOUR,
    LAYOUTS,
    TWO,
    as_replicated,
    as_straight,
    last_checkpoint,
    let_in,
    let_libraries_in,
    replicated,
    sharded,
    states,
)

pytestmark = [pytest.mark.train, pytest.mark.slow]


def in_long(*names: str) -> list[Any]:
    """Cases of `make test-long`: CI has not the time for all."""
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.fixture(autouse=True)
def _let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)


@pytest.mark.parametrize(
    "layout",
    ["kl", "mini-batches and lag", "bfloat16", *in_long("plain", "lora", "bfloat16 weights")],
)
def test_a_sharded_run_is_the_replicated_one(layout: str, tmp_path: Path) -> None:
    as_replicated(layout, tmp_path)


@pytest.mark.parametrize(
    "layout", ["lora", *in_long("mini-batches and lag", "kl", "bfloat16 weights")]
)
def test_a_sharded_run_goes_on_and_is_extended(layout: str, tmp_path: Path) -> None:
    straight = as_straight(layout, tmp_path)
    names = {path.name for path in last_checkpoint(straight).iterdir()}
    # Its own part by each process, and the weights no second time.
    assert {"pytorch_model_fsdp_0", "optimizer_0"} <= names
    assert not [name for name in names if name.startswith(("model", "adapter"))]
    assert "pytorch_model_fsdp.bin" not in names


ZERO = [
    ("zero3", "kl"),
    *(
        pytest.param(stage, layout, marks=pytest.mark.long)
        for stage, layout in [
            *[("zero1", "plain"), ("zero2", "mini-batches and lag"), ("zero2", "bfloat16")],
            ("zero3", "lora"),
        ]
    ),
]


@pytest.mark.parametrize(("stage", "layout"), ZERO)
def test_a_run_by_deepspeed_is_the_replicated_one(
    stage: Shared, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_libraries_in(monkeypatch, stage)
    as_replicated(layout, tmp_path, sharding=stage)


@pytest.mark.parametrize(
    ("stage", "layout"),
    [("zero3", "lora"), pytest.param("zero2", "mini-batches and lag", marks=pytest.mark.long)],
)
def test_a_run_by_deepspeed_goes_on_and_is_extended(
    stage: Shared, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_libraries_in(monkeypatch, stage)
    as_straight(layout, tmp_path, sharding=stage)


@pytest.mark.long
@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_a_run_with_8_bit_states_goes_on_and_is_extended(
    sharding: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_libraries_in(monkeypatch, sharding)
    as_straight("8-bit states", tmp_path, sharding=sharding)


@pytest.mark.parametrize("layout", ["lora", *in_long("plain")])
def test_the_weights_of_a_sharded_run_are_loaded_as_any(layout: str, tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    spec = sharded(layout)
    whole = trained(replace(spec, sharding="ddp"), tmp_path / "whole", BUDGETS)
    run = prepared(spec, tmp_path / "parts")
    keep = CheckpointConfig(keep="weights")
    TrainRun(str(run.root), BUDGETS, "flops", make_config().health, keep)()
    loaded = []
    for each in map(last_checkpoint, (whole, run)):
        if layout == "lora":
            model = AutoModelForCausalLM.from_pretrained(weights(spec.model))
            loaded.append(PeftModel.from_pretrained(model, each).state_dict())
        else:
            loaded.append(AutoModelForCausalLM.from_pretrained(each).state_dict())
    theirs, ours = loaded
    assert theirs.keys() == ours.keys()
    assert all(torch.allclose(theirs[name], ours[name], atol=1e-5) for name in theirs)
    assert not (last_checkpoint(run) / "pytorch_model_fsdp_0").exists()


@pytest.mark.parametrize("layout", ["kl", "bfloat16", "bfloat16 weights", "lora", "replicated"])
def test_each_process_holds_what_is_planned(layout: str, tmp_path: Path) -> None:
    spec = replicated("kl") if layout == "replicated" else sharded(layout)
    ranks = states(spec, tmp_path)
    config = make_config(*TWO, *LAYOUTS.get(layout, LAYOUTS["kl"]))
    hardware = replace(config.hardware, device="cuda", sharding=spec.sharding)
    planned = state_bytes(spec.model.architecture, spec.recipe, hardware)
    for name, most in asdict(planned).items():
        measured = max(rank[name] for rank in ranks)
        assert measured == pytest.approx(most, rel=0.1), name
    assert {rank.get("reduced", "torch.float32") for rank in ranks} == {"torch.float32"}


def test_of_two_copies_each_process_holds_half_a_copy(tmp_path: Path) -> None:
    spec = sharded("kl", *FOUR, replicas=2)
    whole = (Path(weights(spec.model)) / "model.safetensors").stat().st_size
    for rank in states(spec, tmp_path):
        held = {"weights": 0.5, "reference": 0.5, "gradients": 0.5, "optimizer": 1.0}
        assert {name: rank[name] / whole for name in held} == pytest.approx(held, rel=0.1)
