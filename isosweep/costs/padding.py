"""What padding costs: the lengths that micro-batches are expected to be padded to.

A micro-batch is as wide as its longest rollout, and a plan knows the mean and the longest length
allowed. Lengths of completions are assumed to have the distribution that says least beyond these
two: of all on [1, longest] with this mean the one of largest entropy, a truncated exponential
(E. T. Jaynes, Phys. Rev. 106, 620, 1957): at every token the odds of an end are the same. Not
modelled: prompts of several lengths, and answers that pile up at the limit.
"""

import math

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
    """FLOPs a device is expected to compute in one generation's scoring, and in training on it:
    (2, batches).

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

    def flops(width: float) -> NDArray[np.float64]:
        row = hardware_flops(
            arch,
            passes,
            prompt=lengths.prompt,
            completion=width,
            answer=lengths.completion,
            checkpointing=hardware.gradient_checkpointing,
            pairs=attention_pairs(hardware.attention),
        )
        return np.array([passes.scoring * float(row.scoring), float(row.training)])

    # Both are quadratic in the width: their means follow from its first two moments.
    reach = lengths.longest
    none, half, whole = (flops(width) for width in (0.0, reach / 2, reach))
    curves = 2 * (whole - 2 * half + none) / reach**2
    slopes = (whole - none) / reach - curves * reach
    return np.array(
        [
            local * (constant + slope * first + curve * second)
            for constant, slope, curve, (first, second) in zip(
                none, slopes, curves, (scored, trained), strict=True
            )
        ]
    )


class _Ends:
    """Where completions end by the distribution above: from 0, their first token, to 1, the limit.

    `place`: the mean; `reach`: tokens between the two.
    """

    def __init__(self, mean: float, longest: float) -> None:
        self.reach = longest - 1
        self.place = (mean - 1) / max(self.reach, 1)
        # Past the middle it is the same distribution from its other end.
        self.mirrored = self.place > 0.5
        self.rate = _rate(min(self.place, 1 - self.place))
        self.norm = -math.expm1(-self.rate)

    def _nearer(self, share: Floats) -> Floats:
        quantile: Floats = -np.log1p(-share * self.norm) / self.rate
        return quantile

    def quantile(self, share: Floats) -> Floats:
        """Where so large a share has ended."""
        return 1 - self._nearer(1 - share) if self.mirrored else self._nearer(share)

    def left(self, at: Floats) -> Floats:
        """The share that ends later."""
        at = 1 - at if self.mirrored else at
        share: Floats = (np.expm1(-self.rate * at) + self.norm) / self.norm
        return 1 - share if self.mirrored else share

    def integrals(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Integrals of the quantile function and of its square between two shares."""
        r = self.rate
        ends = map(self._nearer, (1 - high, 1 - low) if self.mirrored else (low, high))
        # Of x and x^2 times the density, from each end on.
        (first, second), (less, least) = (
            np.array([x + 1 / r, x**2 + 2 * x / r + 2 / r**2]) * np.exp(-r * x) / self.norm
            for x in ends
        )
        first, second = first - less, second - least
        if self.mirrored:
            first, second = high - low - first, high - low - 2 * first + second
        return first, second


def _rate(mean: float) -> float:
    """Rate of the exponential distribution, truncated to [0, 1], whose mean is at most 1/2."""
    # From a thousandth on it is told from the uniform one; a millionth is as good as none.
    low, high = 1e-3, 1e6
    while low < (rate := (low + high) / 2) < high:
        over = 1 / rate - math.exp(-rate) / -math.expm1(-rate) > mean
        low, high = (rate, high) if over else (low, rate)
    return rate


def width_moments(
    mean: float, longest: float, rollouts: NDArray[np.int64], size: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Mean, and mean square, of the longest completions of parts of `size`: (batches,) each.

    The parts are of `rollouts` ordered by length, with this mean and no length above `longest`.
    The longest of all counts by itself. The ends of the other parts divide the distribution
    evenly: their sum is an integral over it, by the midpoint rule.
    """
    ends, span = _Ends(mean, longest), rollouts + 1 - 2 * _POSITION
    low, high = (np.asarray((at - _POSITION) / span) for at in (size / 2, rollouts - size / 2))
    last = ends.quantile((rollouts - _POSITION) / span)
    last = np.where(rollouts == 1, ends.place, last)
    share, reach = size / rollouts, ends.reach
    first, second = (
        inner * span / rollouts + share * end
        for inner, end in zip(ends.integrals(low, high), (last, last**2), strict=True)
    )
    return 1 + reach * first, 1 + 2 * reach * first + reach**2 * second


def longest_of(lengths: Lengths, rollouts: Floats) -> Floats:
    """Tokens that the longest of so many completions is expected to have: (batches,).

    By the distribution above; and `_RUN_ON` of all go on to the limit, whatever their mean.
    """
    ends = _Ends(lengths.completion, lengths.longest)
    top = (rollouts - _POSITION) / (rollouts + 1 - 2 * _POSITION)
    longest = np.maximum(ends.quantile(top), ends.place)
    longest = np.where(rollouts <= 1, ends.place, longest)
    cut = -np.expm1((rollouts - 1).clip(0) * math.log1p(-_RUN_ON))
    tokens: Floats = 1 + ends.reach * (longest + (1 - longest) * cut)
    return tokens


def mean_cached(lengths: Lengths) -> float:
    """Tokens of a completion that are cached when another of it is decoded: the mean over all
    decoded tokens, of which long completions have more than their share."""
    alone = np.array([1024]), np.array([1])
    first, second = width_moments(lengths.completion, lengths.longest, *alone)
    return float((second / first)[0]) / 2


def cached_at_most(lengths: Lengths) -> float:
    """Tokens of a completion that are expected in the cache where that is fullest: (t x the share
    that is longer than t) at its most, of completions that begin together, or their mean while
    others begin as some end, if that is more."""
    ends, at = _Ends(lengths.completion, lengths.longest), np.linspace(0.0, 1.0, 257)
    together = float(np.max(ends.left(at[:-1]) * (1 + ends.reach * at[1:])))
    return max(together, mean_cached(lengths))
