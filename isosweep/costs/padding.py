"""What padding costs: the lengths that micro-batches are expected to be padded to.

A micro-batch is as wide as its longest rollout, and a plan knows the mean and the longest length
allowed. Lengths of completions are assumed to have the distribution that says least beyond these
two: of all on [1, longest] with this mean the one of largest entropy, a truncated exponential
(E. T. Jaynes, Phys. Rev. 106, 620, 1957): at every token the odds of an end are the same. Not
modelled: prompts of several lengths, and answers that pile up at the limit.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.task import Lengths
from isosweep.costs.flops import Passes, attention_pairs, hardware_flops

Floats = NDArray[np.float64]
# The k-th of N ordered values is expected near the quantile (k - a) / (N + 1 - 2a); for long tails
# a = 0.44 (I. I. Gringorten, J. Geophys. Res. 68, 813, 1963).
_POSITION = 0.44
# Completions that never end by themselves, as loops do: 0.05% to 0.2% of Qwen2.5-1.5B-Instruct's
# were cut in settled GRPO runs, by a mean of 20 tokens or of 300 (simondong1.github.io,
# experiments/grpo-batch-knobs/endpoints.csv).
_RUN_ON = 1e-3


def learner_flops(
    arch: Architecture,
    hardware: HardwareConfig,
    passes: Passes,
    lengths: Lengths,
    *,
    local: NDArray[np.int64],
    micro_batch: NDArray[np.int64],
    mini_batches: int = 1,
) -> Floats:
    """FLOPs a device is expected to compute in one generation's scoring and training: (batches,).

    `local`: rollouts of a device, in micro-batches of `micro_batch`, both (batches,), which are
    ordered within each of `mini_batches`.
    """
    update = np.maximum(local // mini_batches, 1)
    # Where nothing fits, one at a time: such a candidate is rejected for that.
    size = np.clip(micro_batch, 1, update)
    # A mixture's rollouts are trained on in TRL's order: each micro-batch is a sample of all.
    among = size if arch.num_experts else update
    scored, trained = (
        width_moments(lengths.completion, lengths.longest, rollouts, size)
        for rollouts in (local, among)
    )

    def flops(width: float) -> tuple[float, float]:
        row = hardware_flops(
            arch,
            passes,
            prompt=lengths.prompt,
            completion=width,
            answer=lengths.completion,
            checkpointing=hardware.gradient_checkpointing,
            pairs=attention_pairs(hardware.attention),
        )
        made = float(passes.old_policy) + float(passes.reference)
        return made * float(row.scoring), float(row.training)

    each = _mean_of_square_law(flops, lengths.longest, (scored, trained))
    total: Floats = local * each
    return total


def _mean_of_square_law(
    flops: Callable[[float], tuple[float, float]],
    reach: float,
    moments: tuple[tuple[Floats, Floats], tuple[Floats, Floats]],
) -> Floats:
    """The sum of the means of two quadratic functions, from the moments of what each is given."""
    none, half, whole = (np.array(flops(width)) for width in (0.0, reach / 2, reach))
    curves = 2 * (whole - 2 * half + none) / reach**2
    slopes = (whole - none) / reach - curves * reach
    mean: Floats = sum(
        constant + slope * first + curve * second
        for constant, slope, curve, (first, second) in zip(
            none, slopes, curves, moments, strict=True
        )
    )
    return mean


def width_moments(
    mean: float, longest: float, rollouts: NDArray[np.int64], size: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Mean, and mean square, of the longest completions of parts of `size`: (batches,) each.

    The parts are of `rollouts` ordered by length, with this mean and no length above `longest`.
    The longest of all counts by itself. The ends of the other parts divide the distribution
    evenly: their sum is an integral over it, by the midpoint rule.
    """
    span = rollouts + 1 - 2 * _POSITION
    low, high = (np.asarray((at - _POSITION) / span) for at in (size / 2, rollouts - size / 2))
    top = (rollouts - _POSITION) / span
    place = (mean - 1) / max(longest - 1, 1)
    rate = _rate(min(place, 1 - place))
    if place > 0.5:
        # The same distribution from the other end.
        first, second = _integrals(rate, 1 - high, 1 - low)
        first, second = high - low - first, high - low - 2 * first + second
        last = 1 - _quantile(rate, 1 - top)
    else:
        first, second = _integrals(rate, low, high)
        last = _quantile(rate, top)
    last = np.where(rollouts == 1, place, last)
    share = size / rollouts
    first, second = (
        inner * span / rollouts + share * end for inner, end in ((first, last), (second, last**2))
    )
    reach = longest - 1
    return 1 + reach * first, 1 + 2 * reach * first + reach**2 * second


def longest_of(lengths: Lengths, rollouts: Floats) -> Floats:
    """Tokens that the longest of so many completions is expected to have: (batches,).

    By the distribution above; and `_RUN_ON` of all go on to the limit, whatever their mean.
    """
    mean, reach = lengths.completion, lengths.longest - 1
    place = (mean - 1) / max(reach, 1)
    rate = _rate(min(place, 1 - place))
    top = (rollouts - _POSITION) / (rollouts + 1 - 2 * _POSITION)
    quantile = 1 - _quantile(rate, 1 - top) if place > 0.5 else _quantile(rate, top)
    longest = np.where(rollouts <= 1, place, np.maximum(quantile, place))
    cut = -np.expm1((rollouts - 1).clip(0) * math.log1p(-_RUN_ON))
    tokens: Floats = 1 + reach * (longest + (1 - longest) * cut)
    return tokens


def mean_cached(lengths: Lengths) -> float:
    """Tokens of a completion that are cached when another of it is decoded: the mean over all
    decoded tokens, of which long completions have more than their share."""
    first, second = width_moments(
        lengths.completion, lengths.longest, np.array([1024]), np.array([1])
    )
    return float((second / first)[0]) / 2


def cached_at_most(lengths: Lengths) -> float:
    """Tokens of a completion that are expected in the cache where that is fullest: (t x the share
    that is longer than t) at its most, of completions that begin together, or their mean while
    others begin as some end, if that is more."""
    reach = lengths.longest - 1
    place = (lengths.completion - 1) / max(reach, 1)
    rate = _rate(min(place, 1 - place))
    ends = np.linspace(0.0, 1.0, 257)
    # What is left at each end, of the distribution or of the same from its other end.
    left = _survival(rate, ends) if place <= 0.5 else 1 - _survival(rate, 1 - ends)
    together = float(np.max(left[:-1] * (1 + reach * ends[1:])))
    return max(together, mean_cached(lengths))


def _rate(mean: float) -> float:
    """Rate of the exponential distribution, truncated to [0, 1], whose mean is at most 1/2."""
    # From a thousandth on it is told from the uniform one; a millionth is as good as none.
    low, high = 1e-3, 1e6
    while low < (rate := (low + high) / 2) < high:
        over = 1 / rate - math.exp(-rate) / -math.expm1(-rate) > mean
        low, high = (rate, high) if over else (low, rate)
    return rate


def _quantile(rate: float, share: Floats) -> Floats:
    quantile: Floats = -np.log1p(share * math.expm1(-rate)) / rate
    return quantile


def _survival(rate: float, at: Floats) -> Floats:
    share: Floats = (np.expm1(-rate * at) - math.expm1(-rate)) / -math.expm1(-rate)
    return share


def _integrals(rate: float, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Integrals of the quantile function and of its square between two shares."""
    low, high = _quantile(rate, low), _quantile(rate, high)
    norm = -math.expm1(-rate)

    def first(at: Floats) -> Floats:
        tail: Floats = (at + 1 / rate) * np.exp(-rate * at) / norm
        return tail

    def second(at: Floats) -> Floats:
        tail: Floats = (at**2 + 2 * at / rate + 2 / rate**2) * np.exp(-rate * at) / norm
        return tail

    return first(low) - first(high), second(low) - second(high)
