"""Metrics: what the k samples of a problem score together, an object each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

MetricName = Literal["avg", "best", "worst", "majority"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """`NAME@k`.

    `count` turns how many of k samples are right, (..., problems), into the successes that count
    and of how many samples each is. None: records have every problem's score by the metric's name,
    0 or 1.
    """

    count: Callable[[IntArray, int], tuple[IntArray, int]] | None = None


METRICS: Final[Mapping[MetricName, Metric]] = {
    "avg": Metric(count=lambda right, k: (right, k)),
    "best": Metric(count=lambda right, k: ((right > 0) + 0, 1)),
    "worst": Metric(count=lambda right, k: ((right == k) + 0, 1)),
    # 1 if their commonest answer is right.
    "majority": Metric(),
}
