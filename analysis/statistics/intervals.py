"""Intervals of draws at the analysis's confidence, and the values beyond a grid where they end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.words.numbers import interval


def central_quantiles(draws: FloatArray, confidence: float) -> FloatArray:
    """Median, low and high end of the central interval of (draws, ...): (3, ...)."""
    return np.asarray(np.quantile(draws, (0.5, 0.5 - confidence / 2, 0.5 + confidence / 2), axis=0))


def central_ends(draws: FloatArray, confidence: float) -> tuple[float, float]:
    """Low and high end of the central interval of (draws,)."""
    _, low, high = central_quantiles(draws, confidence).tolist()
    return low, high


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A median and the ends of an interval at the analysis's confidence, which may be censored."""

    median: float
    """Median."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    open_below: bool = False
    """Whether the value may lie below all that was run."""
    open_above: bool = False
    """Whether it may lie above all that was run."""

    @classmethod
    def central(cls, draws: FloatArray, confidence: float) -> "Interval":
        """Of draws (draws,)."""
        return cls.of(central_quantiles(draws, confidence))

    @classmethod
    def of(cls, quantiles: FloatArray) -> "Interval":
        """Of median, low and high end: (3,)."""
        median, low, high = quantiles.tolist()
        return cls(median=median, low=low, high=high)

    def __str__(self) -> str:
        """Median and ends: 23 (8 to 51), or 4 (4 or less to 7+)."""
        ends = self.median, self.low, self.high
        return interval(*ends, below=self.open_below, above=self.open_above)

    def holds(self, value: float) -> bool:
        """Whether the value lies in it, or beyond an open end."""
        low = -math.inf if self.open_below else self.low
        return low <= value <= (math.inf if self.open_above else self.high)

    def nearest(self, grid: Sequence[int]) -> int:
        """The n of the grid nearest to the median, in doublings."""
        return min(grid, key=lambda n: abs(math.log2(n / self.median)))
