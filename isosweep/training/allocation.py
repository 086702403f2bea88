"""How many rollouts each problem of a generation gets where `recipe.allocation` is not uniform.

Knapsack RL (arXiv 2509.25849; github.com/liziniu/KnapsackRL, verl/trainer/ppo/exploration_utils.py)
gives problem i, solved at rate p_i, n_i rollouts of the n x B of a generation so that the sum of
value(p_i, n_i) is largest. docs/allocation.md says where this differs from the paper.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

# Of the authors' run_knapsack_grpo_7b.sh: MIN_N; MAX_N = 128 for n = 8; REWARD_BUFFER_LENGTH;
# MIN_BUFFER_LENGTH.
LEAST = 2
MOST_OF_N = 16
_RECENT = 16
_ENOUGH = 8
# Of `sampling_budget_by_knapsack`: alpha.
_SURE = 0.9

# What one more rollout is worth to a problem of a rate that has so many.
Gain = Callable[[float, int], float]


def value(rate: float, rollouts: int) -> float:
    """What `rollouts` of a problem that is solved at `rate` are worth.

    The chance that they differ, 1 - p^n - (1-p)^n, times p (1-p)^2, what a step then adds to p
    (arXiv 2509.25849, section 4).
    """
    wrong = 1 - rate
    return (1 - rate**rollouts - wrong**rollouts) * rate * wrong**2


def gain(rate: float, rollouts: int) -> float:
    """value(p, n + 1) - value(p, n), which falls with n: what has the largest gain is best given
    the next rollout, and rollouts given one by one make the largest sum of values."""
    wrong = 1 - rate
    return (rate**rollouts * wrong + wrong**rollouts * rate) * rate * wrong**2


def needed(rate: float) -> float:
    """Rollouts that differ with a probability of 0.9, about, where the rate lies between 0 and 1:
    max(p, 1-p)^n = 0.1."""
    return math.log(1 - _SURE) / math.log(max(rate, 1 - rate))


def allocate(rates: Sequence[float | None], n: int) -> list[int]:
    """Rollouts of each problem, n a problem on average, from the `rates` they are solved at.

    A problem of unknown rate (None) has n. Every other has LEAST or more, at most MOST_OF_N x n.
    What is left goes to those that are sometimes solved, by `gain`; beyond what these need, to
    those that never are, evenly.
    """
    sizes = [n if rate is None else min(LEAST, n) for rate in rates]
    left, most = n * len(rates) - sum(sizes), MOST_OF_N * n
    never = [at for at, rate in enumerate(rates) if rate == 0]
    some = {at: rate for at, rate in enumerate(rates) if rate is not None and 0 < rate < 1}
    always = [at for at, rate in enumerate(rates) if rate is not None and rate >= 1]
    asked = sum(math.floor(min(most, needed(rate))) for rate in some.values())
    spared = max(0, left - asked) if never else 0
    left = spared + _give(sizes, some, left - spared, most, gain)
    for evenly in (never, some, always):
        left = _give(sizes, dict.fromkeys(evenly, 0.0), left, most, lambda _, size: -size)
    return sizes


def _give(sizes: list[int], rates: Mapping[int, float], left: int, most: int, worth: Gain) -> int:
    """Raise `sizes` at the places of `rates` one by one, the most worthy first, each up to `most`;
    what is still left of the rollouts."""
    queue = [(-worth(rate, sizes[at]), at) for at, rate in rates.items() if sizes[at] < most]
    heapq.heapify(queue)
    while left and queue:
        _, at = queue[0]
        sizes[at] += 1
        left -= 1
        if sizes[at] < most:
            heapq.heapreplace(queue, (-worth(rates[at], sizes[at]), at))
        else:
            heapq.heappop(queue)
    return left


class Knapsack:
    """Sizes of groups by `allocate`, from the newest rollouts of each problem.

    The rate is that of a problem's last group, or of its 16 newest rollouts where that had fewer;
    unknown below 8 rollouts in all.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        # Of each problem: its newest rollouts in order, `1` where one was a success and `0` else.
        self._recent: dict[int, str] = {}

    def sizes(self, problems: Sequence[int]) -> list[int]:
        """Rollouts that each of a generation's `problems` gets: n times as many in all."""
        return allocate([self._rate(problem) for problem in problems], self._n)

    def scored(self, outcomes: Iterable[tuple[int, Sequence[bool]]]) -> None:
        """Take note of problems' newest rollouts: whether each was a success."""
        for problem, successes in outcomes:
            newest = "".join("01"[bool(success)] for success in successes)
            kept = self._recent.get(problem, "") + newest
            self._recent[problem] = kept[-max(_RECENT, len(newest)) :]

    def to_json(self) -> dict[str, str]:
        """What is known of each problem, for a checkpoint."""
        return {str(problem): recent for problem, recent in self._recent.items()}

    def restore(self, document: Mapping[str, str]) -> None:
        """Go on where `to_json` was called."""
        self._recent = {int(problem): recent for problem, recent in document.items()}

    def _rate(self, problem: int) -> float | None:
        recent = self._recent.get(problem, "")
        return recent.count("1") / len(recent) if len(recent) >= _ENOUGH else None
