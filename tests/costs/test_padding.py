"""Expected padding against simulated generations, and against what hardware FLOPs are made of."""

from typing import Any

import numpy as np
import pytest

from isosweep.config.task import Lengths
from isosweep.costs.flops import Passes, hardware_flops, rollout_flops
from isosweep.costs.padding import cached_at_most, learner_flops, longest_of, width_moments
from tests.conftest import make_config


def exponential(rng: Any, mean: float, longest: float, shape: tuple[int, int]) -> Any:
    """Whole lengths at each of which the odds of an end are the same, none above `longest`."""
    lengths = np.arange(1, longest + 1)
    low, high = -1.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        weights = np.exp(-100 * rate * (lengths / longest - 0.5))
        weights /= weights.sum()
        low, high = (rate, high) if weights @ lengths > mean else (low, rate)
    return rng.choice(lengths, size=shape, p=weights)


def simulated(mean: float, longest: float, rollouts: int, size: int) -> Any:
    """Widths of micro-batches over many generations."""
    lengths = np.sort(exponential(np.random.default_rng(0), mean, longest, (800, rollouts)), axis=1)
    return lengths[:, size - 1 :: size].astype(float)


def moments(mean: float, longest: float, rollouts: int, size: int) -> tuple[float, float]:
    first, second = width_moments(mean, longest, np.array([rollouts]), np.array([size]))
    return float(first[0]), float(second[0])


@pytest.mark.parametrize(
    ("mean", "longest"), [(1500, 16384), (1000, 4096), (2048, 4096), (3500, 4096), (300, 2048)]
)
@pytest.mark.parametrize(
    ("rollouts", "size", "within", "squares_within"),
    [
        *((2048, 16, 0.01, 0.02), (512, 16, 0.01, 0.03), (64, 16, 0.03, 0.08)),
        # Of one micro-batch the longest varies, and the mean square of what varies is more.
        *((16, 16, 0.06, 0.2), (4, 4, 0.1, 0.4), (64, 1, 0.03, 0.06)),
    ],
)
def test_widths_are_those_of_simulated_generations(
    mean: float, longest: float, rollouts: int, size: int, within: float, squares_within: float
) -> None:
    widths = simulated(mean, longest, rollouts, size)
    first, second = moments(mean, longest, rollouts, size)
    assert first == pytest.approx(widths.mean(), rel=within)
    assert second == pytest.approx((widths**2).mean(), rel=squares_within)


def test_answers_that_are_all_of_one_length_are_not_padded() -> None:
    assert moments(7, 7, 64, 16) == pytest.approx((7, 49), rel=1e-4)
    assert moments(1, 24, 64, 16) == pytest.approx((1, 1), rel=1e-3)
    assert moments(1, 1, 64, 16) == pytest.approx((1, 1))
    assert moments(5, 9, 1, 1)[0] == pytest.approx(5)


def test_the_longest_of_more_answers_is_longer_and_never_above_the_limit() -> None:
    lengths = Lengths(prompt=100.0, completion=200.0, longest=2048.0)
    found = longest_of(lengths, np.array([1.0, 2, 8, 64, 512, 1e6]))
    assert found[[0, -1]] == pytest.approx([200, 2048])
    assert (np.diff(found) > 0).all()
    # Few reach the limit: nearly an exponential distribution, whose maxima are known.
    rng = np.random.default_rng(0)
    drawn = np.minimum(rng.exponential(200, size=(4000, 64)), 2048).max(axis=1).mean()
    assert found[3] == pytest.approx(drawn, rel=0.1)
    alike = Lengths(prompt=100.0, completion=2048.0, longest=2048.0)
    assert longest_of(alike, np.array([1.0, 64.0])) == pytest.approx(2048)
    assert cached_at_most(alike) == pytest.approx(2048)
    assert 100 < cached_at_most(lengths) < 512


def test_a_mixtures_micro_batches_are_as_wide_as_any_sample_of_its_rollouts() -> None:
    config = make_config("model=qwen3-30b-a3b")
    arch, hardware, passes = config.model.architecture, config.hardware, Passes()
    scoring, (flops,) = learner_flops(
        *(arch, hardware, passes),
        Lengths(prompt=100.0, completion=1000.0, longest=4096.0),
        local=np.array([512]),
        micro_batch=np.array([16]),
    )
    width, _ = moments(1000.0, 4096.0, 16, 16)
    row = hardware_flops(
        arch,
        passes,
        prompt=100.0,
        completion=width,
        answer=1000.0,
        checkpointing=hardware.gradient_checkpointing,
    )
    assert (scoring == 0).all()
    assert flops == pytest.approx(512 * float(row.training))
    model = float(rollout_flops(arch, 100.0, 1000.0, passes).training)
    assert flops > 2 * 512 * model
