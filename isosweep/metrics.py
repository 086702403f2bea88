"""Metrics: what the k samples of a problem score together, a row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

MetricName = Literal["avg", "best", "worst", "majority"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What k samples of each problem score: the value v = `points` / `of`, from 0 to 1.

    `points`: (..., problems). `of`: independent samples of which v is at least as certain as a
    share: other samples of the same problem would give v a variance of v (1 - v) / `of` at most.
    """

    points: IntArray | FloatArray
    of: int


# Of how many of the k samples of each problem are right, (..., problems), and k.
Score = Callable[["IntArray", int], Scored]


def passing(draws: int | None = None) -> Score:
    """pass@j, j = `draws` or k: the chance that one of j samples is right.

    With f of k samples wrong, v = 1 - C(f, j) / C(k, j), without bias (Chen et al. 2021, arXiv
    2107.03374, section 2.1). v - 1 is a U-statistic, so its variance is at most that of a mean
    over k // j disjoint sets of j (Hoeffding 1948, section 5). avg@k is the case j = 1, best@k
    j = k. Raises ValueError where j > k.
    """

    def score(right: IntArray, k: int) -> Scored:
        from isosweep.heldout import pass_at

        j = draws or k
        return Scored(points=pass_at(right, k, j) * (k // j), of=k // j)

    return score


# None: records have every problem's score by the metric's name, 0 or 1.
METRICS: Final[Mapping[MetricName, Score | None]] = {
    "avg": lambda right, k: Scored(points=right, of=k),
    "best": passing(),
    "worst": lambda right, k: Scored(points=(right == k) + 0, of=1),
    # 1 if their commonest answer is right.
    "majority": None,
}
