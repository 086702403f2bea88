"""Weights on advantages that no recipe of test_recipes.py shows."""

from typing import Any

import pytest

pytestmark = pytest.mark.train


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo"])
def test_groups_that_are_left_out_are_left_out_of_a_mean_over_rollouts(loss_type: str) -> None:
    import torch

    from isosweep.training.weights import advantage_weights

    kept = torch.tensor([True, False, True, True])
    losses = torch.rand(12, generator=torch.Generator().manual_seed(0))
    weights = advantage_weights(kept, torch.ones(12), loss_type, by_problem=False)
    left = losses[kept.repeat_interleave(3)]
    assert (losses * weights).mean().item() == pytest.approx(left.mean().item())
    for by_problem in (False, True):
        # Where nothing is kept nothing weighs.
        weights = advantage_weights(torch.zeros_like(kept), torch.ones(12), loss_type, by_problem)
        assert (weights == 0).all()


def test_advantages_are_divided_by_their_own_spread_over_all_processes() -> None:
    import torch

    from isosweep.training.weights import by_their_spread

    centred: Any = torch.tensor([0.5, 0.5, 0.5, -1.5, -0.5, -0.5, 1.5, -0.5, 0.0, 0.0, 0.0, 0.0])
    scaled = by_their_spread(centred[:4], lambda local: centred)
    expected = centred[:4] / (((centred**2).sum() / 11).sqrt() + 1e-4)
    assert torch.allclose(scaled, expected)
