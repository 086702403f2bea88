"""vLLM in the generator beside a trainer: the run that one process makes, bit for bit."""

from pathlib import Path

import pytest
import torch

from isosweep.store.paths import RunPaths
from tests.conftest import SMALL, isosweep
from tests.runs import reproducible
from tests.training.builders import metrics
from tests.training.engines import final_parameters, only_run, require_vllm

pytestmark = pytest.mark.vllm
RUN = (
    *SMALL,
    *("generation=vllm", "recipe.rollout_lag=1", "tracking=none", "budget=2.708e10"),
    *("grid.num_generations=[8]", "grid.problems_per_batch=[8]", "grid.seeds=[0]"),
    *("task.num_eval_problems=16", "evaluation.samples_per_problem=2"),
)


@pytest.fixture(autouse=True, scope="module")
def _vllm() -> None:
    require_vllm()


def made(cwd: Path, *overrides: str) -> RunPaths:
    cwd.mkdir()
    isosweep(*RUN, *overrides, cwd=cwd)
    return only_run(cwd)


@pytest.mark.parametrize("adapters", [(), ("recipe.lora_rank=4",)], ids=["whole", "adapters"])
def test_an_engine_in_the_generator_changes_no_number(
    adapters: tuple[str, ...], tmp_path: Path
) -> None:
    alone = made(tmp_path / "alone", *adapters)
    beside = made(tmp_path / "beside", *adapters, "generation.overlap=true")
    assert beside.run_id == alone.run_id
    assert reproducible(beside) == reproducible(alone)
    assert len(reproducible(alone)) > 2
    assert metrics(beside) == metrics(alone)
    if not adapters:
        own, expected = final_parameters(beside, 1), final_parameters(alone, 1)
        assert all(torch.equal(own[name], expected[name]) for name in expected)
