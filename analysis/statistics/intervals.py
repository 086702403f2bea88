"""Central intervals of draws, at the analysis's confidence."""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.words.numbers import interval


def central_quantiles(draws: FloatArray, confidence: float) -> FloatArray:
    """Median, low and high end of the central interval of (draws, ...): (3, ...)."""
    return np.asarray(np.quantile(draws, _shares(confidence), axis=0))


def central_ends(draws: FloatArray, confidence: float) -> tuple[float, float]:
    """Low and high end of the central interval of (draws,)."""
    low, high = np.quantile(draws, _shares(confidence)[1:]).tolist()
    return low, high


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A median and the ends of an interval at the analysis's confidence."""

    median: float
    """Median."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""

    @property
    def words(self) -> str:
        """Median and ends: 23 (8 to 51)."""
        return self.open_words(below=False, above=False)

    def open_words(self, *, below: bool, above: bool) -> str:
        """As `words`, of what may lie below or above all that was run: 4 (4 or less to 7)."""
        return interval(self.median, self.low, self.high, below=below, above=above)

    @classmethod
    def central(cls, draws: FloatArray, confidence: float) -> "Interval":
        """Of draws (draws,)."""
        return cls.of(central_quantiles(draws, confidence))

    @classmethod
    def of(cls, quantiles: FloatArray) -> "Interval":
        """Of median, low and high end: (3,)."""
        median, low, high = quantiles.tolist()
        return cls(median=median, low=low, high=high)


def _shares(confidence: float) -> tuple[float, float, float]:
    return 0.5, 0.5 - confidence / 2, 0.5 + confidence / 2
