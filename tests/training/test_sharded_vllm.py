"""FSDP2 on two gloo processes with an engine of vLLM in each: weights are sent from their parts."""

from pathlib import Path

import pytest

from tests.conftest import in_ci
from tests.training.engines import VLLM, require_vllm
from tests.training.sharded import as_replicated, let_in

pytestmark = VLLM


@pytest.fixture(autouse=True)
def _let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    require_vllm()
    let_in(monkeypatch)


@pytest.mark.parametrize("layout", in_ci(("plain", "kl", "lora"), "lora"))
def test_a_sharded_run_is_the_replicated_one(layout: str, tmp_path: Path) -> None:
    as_replicated(layout, tmp_path, "generation=vllm")


@pytest.mark.long
def test_an_engine_of_two_processes_is_sent_the_weights_of_both(tmp_path: Path) -> None:
    engine = ("generation=vllm", "generation.tensor_parallel=2")
    as_replicated("mini-batches and lag", tmp_path, *engine)
