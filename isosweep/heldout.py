"""What held-out successes come to: means, coverage, sharpness, and gains against the base model.

`successes` is everywhere an array whose last axis is problems: how many of a problem's `samples`
completions were right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Standard errors beyond which a problem counts as changed; one side is crossed by chance in 2.3%.
CHANGED = 2.0

# Success rates before training at which problems are put together: never right, four quarters.
RATE_EDGES = (0.0, 1e-9, 0.25, 0.5, 0.75, 1.0 + 1e-9)


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


def rate_group(rates: FloatArray) -> IntArray:
    """The place among `RATE_EDGES` of each rate before training, lower end included."""
    return np.asarray(np.digitize(rates, RATE_EDGES[1:-1]), dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """Problems against the base model; all (problems,).

    `gain` is the difference of success rates, `better` and `worse` whether it lies beyond noise.
    """

    gain: FloatArray
    better: BoolArray
    worse: BoolArray


def changes(
    successes: ArrayLike, samples: int, base_successes: ArrayLike, base_samples: int
) -> Changes:
    """What training did to single problems; both successes: (problems,), of the same problems.

    A problem has changed if its rates differ by more than `CHANGED` standard errors of the
    difference between two binomials of the pooled rate. A loss is interference: gains on some
    problems are paid for by others (IsoCompute Playbook, arXiv 2603.12151). The rates are discrete
    and the base model's samples are drawn once, so a few percent of changes on either side are
    chance.
    """
    now = np.asarray(successes, dtype=np.float64) / samples
    base = np.asarray(base_successes, dtype=np.float64) / base_samples
    gain = now - base
    pooled = (now * samples + base * base_samples) / (samples + base_samples)
    variance = pooled * (1 - pooled) * (1 / samples + 1 / base_samples)
    limit = CHANGED * np.sqrt(variance)
    return Changes(gain=gain, better=gain > limit, worse=gain < -limit)
