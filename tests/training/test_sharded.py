"""FSDP2 on two gloo processes, sampling by transformers: the run that DDP would have been."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.hardware import Sharding
from isosweep.costs.memory import state_bytes
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from tests.conftest import in_ci, make_config
from tests.training.sharded import (
    LAYOUTS,
    TWO,
    as_replicated,
    as_straight,
    last_checkpoint,
    let_in,
    let_torchao_in,
    replicated,
    sharded,
    states,
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


@pytest.mark.long
@pytest.mark.parametrize("layout", ["mini-batches and lag", "kl", "bfloat16 weights"])
def test_a_sharded_run_goes_on_and_is_extended(layout: str, tmp_path: Path) -> None:
    as_straight(layout, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_a_run_with_8_bit_states_goes_on_and_is_extended(
    sharding: Sharding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_torchao_in(monkeypatch)
    as_straight("8-bit states", tmp_path, sharding=sharding)


HELD = ("kl", "bfloat16", "bfloat16 weights", "lora")


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each process holds of each layout."""
    with pytest.MonkeyPatch.context() as patch:
        let_in(patch)
        found = states(tmp_path_factory.mktemp("held"), *map(sharded, HELD))
    return dict(zip(HELD, found, strict=True))


@pytest.mark.parametrize("layout", HELD)
def test_each_process_holds_what_is_planned(
    layout: str, held: dict[str, list[dict[str, Any]]]
) -> None:
    as_planned(sharded(layout), held[layout], LAYOUTS[layout])


def test_each_process_of_a_replicated_run_holds_what_is_planned(tmp_path: Path) -> None:
    spec = replicated("kl")
    (ranks,) = states(tmp_path, spec)
    as_planned(spec, ranks, LAYOUTS["kl"])


def as_planned(spec: RunSpec, ranks: list[dict[str, Any]], layout: tuple[str, ...]) -> None:
    config = make_config(*TWO, *layout)
    hardware = replace(config.hardware, device="cuda", sharding=spec.sharding)
    planned = state_bytes(spec.model.architecture, spec.recipe, hardware)
    for name, most in asdict(planned).items():
        measured = max(rank[name] for rank in ranks)
        assert measured == pytest.approx(most, rel=0.1), name
    assert {rank.get("reduced", "torch.float32") for rank in ranks} == {"torch.float32"}
