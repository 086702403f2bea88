"""Work around TRL's numbers is cut, and no number changes: parameters and metrics, bit for bit."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_ci
from tests.training.builders import parameters, spec_of, train, trainer_of

pytestmark = pytest.mark.train

CASES = {
    "default": (),
    "a temperature": ("recipe.temperature=0.6", "recipe.top_p=0.9"),
    "prompts of two lengths": ("task.sort.levels=[4,6]", "recipe.loss_type=cispo"),
    "a reference, batches scored again": ("recipe.beta=0.01", "recipe.num_iterations=2"),
    "answers cut off": ("task.max_completion_tokens=3", "recipe.mask_truncated_completions=true"),
}


def trained(directory: Path, overrides: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """Parameters after three steps, and the metrics of each."""
    trainer = trainer_of(spec_of(*overrides), directory)
    metrics = train(trainer, 3)
    return parameters(trainer), metrics


@pytest.mark.parametrize(
    "case",
    in_ci(CASES, "a temperature", "prompts of two lengths", "a reference, batches scored again"),
)
def test_a_lean_trainer_trains_as_trls(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from trl import GRPOTrainer
    from trl.trainer import utils

    from isosweep.training.loop import METRICS
    from isosweep.training.trainer import SweepTrainer

    def generated(self: Any, prompt_ids: list[list[int]], num_generations: int) -> Any:
        return GRPOTrainer._generate_single_turn(self, prompt_ids, None, {}, num_generations)

    lean, metrics = trained(tmp_path / "lean", CASES[case])
    monkeypatch.setattr(SweepTrainer, "sample", generated)
    monkeypatch.setattr(SweepTrainer, "_words", utils._CHUNKED_LOGPROB_CHUNK_SIZE)
    whole, expected = trained(tmp_path / "whole", CASES[case])
    assert all(torch.equal(a, b) for a, b in zip(lean, whole, strict=True))
    assert metrics == expected
    assert len(metrics) == 3
    # Nothing that is kept of TRL's log is lost: vLLM's metrics are in its tests.
    sampled = {"logp_difference", "logp_difference_max"}
    kl = set() if case.startswith("a reference") else {"kl"}
    assert {*METRICS.values()} - sampled - kl <= metrics[0].keys()
