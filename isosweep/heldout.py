"""Scores of held-out successes: avg@k, best@k, worst@k and pass@j.

`successes` is everywhere an array whose last axis is problems: how many of a problem's `samples`
completions were right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def pass_at(successes: IntArray, samples: int, draws: int) -> FloatArray:
    """pass@j of every problem, j = `draws`: the chance that one of j completions is right.

    1 - C(k - c, j) / C(k, j) for c of k = `samples` right, without bias for j <= k, computed as
    1 - prod over i = k - c + 1 .. k of (1 - j / i), which never overflows (Chen et al. 2021,
    arXiv 2107.03374, section 2.1). Raises ValueError unless 1 <= j <= k.
    """
    if not 1 <= draws <= samples:
        raise ValueError(f"pass@{draws} needs between 1 and {samples} draws of {samples} samples")
    factors = 1 - draws / np.arange(samples, 0, -1)
    # The factor of i = j is 0; those after it are negative and no longer matter.
    misses = np.concatenate(([1.0], np.cumprod(np.maximum(factors, 0.0))))
    return np.asarray(1 - misses[successes])


def draws_between(samples: int) -> tuple[int, ...]:
    """The powers of two between 1 and `samples`: pass@1 is avg@k, and pass@k is best@k."""
    return tuple(2**power for power in range(1, (samples - 1).bit_length()))


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Means over problems: avg@k, best@k (any sample right), worst@k (all right), pass@j by j.

    The share of problems of which no sample is right is 1 - `best`, of which all are, `worst`.
    """

    num_problems: int
    samples_per_problem: int
    avg: float
    best: float
    worst: float
    pass_at: dict[int, float]


def score(successes: ArrayLike, samples: int) -> Scores:
    """Scores of one evaluation; `successes`: (problems,), at least one problem."""
    counts = np.asarray(successes, dtype=np.int64)
    return Scores(
        num_problems=counts.size,
        samples_per_problem=samples,
        avg=float(counts.mean() / samples),
        best=float((counts > 0).mean()),
        worst=float((counts == samples).mean()),
        pass_at={j: float(pass_at(counts, samples, j).mean()) for j in draws_between(samples)},
    )
