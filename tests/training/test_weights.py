"""Weights on advantages against the means they stand for, on losses that are linear in them."""

from typing import Any

import pytest

pytestmark = pytest.mark.train
KEPT = (True, False, True, True)


def batch() -> tuple[Any, Any, Any]:
    """Losses (groups, n, tokens) for advantages of 1, masks, and tokens (groups, n)."""
    import torch

    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (4, 3), generator=generator)
    mask = (torch.arange(8) < lengths[..., None]).float()
    return torch.rand((4, 3, 8), generator=generator), mask, lengths.float()


def weighted(loss_type: str, by_problem: bool = False) -> Any:
    """TRL's mean over everything, of losses with the weights on their advantages."""
    import torch

    from isosweep.training.weights import advantage_weights

    losses, mask, tokens = batch()
    weights = advantage_weights(torch.tensor(KEPT), tokens, loss_type, by_problem)
    losses = losses * weights[..., None] * mask
    match loss_type:
        case "grpo":
            return (losses.sum(-1) / mask.sum(-1)).mean()
        case "dr_grpo":
            return losses.sum() / (losses.shape[0] * losses.shape[1] * 8)
        case _:
            return losses.sum() / mask.sum()


def test_rollouts_that_are_left_out_are_left_out_of_every_mean() -> None:
    import torch

    losses, mask, _ = batch()
    kept = torch.tensor(KEPT)
    losses, mask = (losses * mask)[kept], mask[kept]
    expected: dict[str, Any] = {
        "grpo": (losses.sum(-1) / mask.sum(-1)).mean(),
        "dr_grpo": losses.sum() / (9 * 8),
        "dapo": losses.sum() / mask.sum(),
        "cispo": losses.sum() / mask.sum(),
    }
    for loss_type, value in expected.items():
        assert weighted(loss_type).item() == pytest.approx(value.item(), rel=1e-6), loss_type


def test_problems_weigh_the_same_however_long_their_answers() -> None:
    import torch

    losses, mask, _ = batch()
    kept = torch.tensor(KEPT)
    losses, mask = (losses * mask)[kept], mask[kept]
    expected = (losses.sum((1, 2)) / mask.sum((1, 2))).mean()
    assert weighted("cispo", by_problem=True).item() == pytest.approx(expected.item(), rel=1e-6)


def test_where_nothing_is_kept_nothing_weighs() -> None:
    import torch

    from isosweep.training.weights import advantage_weights, varied

    scores = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert not varied(scores).any()
    means: list[tuple[str, bool]] = [("grpo", False), ("dapo", False), ("cispo", True)]
    for loss_type, by_problem in means:
        weights = advantage_weights(varied(scores), torch.ones(2, 2), loss_type, by_problem)
        assert (weights == 0).all()


def test_advantages_are_divided_by_their_own_spread_over_all_processes() -> None:
    import torch

    from isosweep.training.weights import by_their_spread

    rewards = torch.tensor([[1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, -1.0], [1.0] * 4])
    centred = (rewards - rewards.mean(1, keepdim=True)).flatten()
    scaled = by_their_spread(centred[:4], lambda local: centred)
    expected = centred[:4] / (((centred**2).sum() / 11).sqrt() + 1e-4)
    assert torch.allclose(scaled, expected)
    # The rewards' own spread is another: it has the problems' differences in it.
    assert not torch.allclose(expected, centred[:4] / rewards.std(), rtol=0.05)
