"""GRPO on small softmax policies, evaluated exactly: rewards of many runs at once.

A problem is a feature vector, a policy a matrix W of logits, logits = features @ W. A step draws B
problems, n answers of each, and divides what each answer scored above its group's mean by the
group's spread. Adam climbs. Compute is counted in rollouts, C = n B T. Held-out reward is the
expectation over held-out problems and answers, without sampling.

With W = 0 at the start every answer is as likely. The clip of PPO's ratio does not act, for every
batch is used once; there is no penalty on the distance from the start.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Adam (arXiv 1412.6980).
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8
_RECORDS_PER_DECADE = 12

RateRule = Literal["constant", "square_root"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Problems and recipe.

    `train` problems are trained on, `held_out` others evaluated; with 0 of these the training
    problems are. Features are normal with `features` dimensions and length about 1. The right
    answer of a problem is random, or with `teacher` the highest logit of a random linear rule.
    It scores with probability `right`, each other of the `answers` with `wrong`.
    `learning_rate` is Adam's at n = `reference_n`; the rule says how it goes with n.
    """

    name: str
    train: int
    held_out: int = 0
    features: int
    answers: int = 8
    teacher: bool = True
    learning_rate: float
    right: float = 1.0
    wrong: float = 0.0
    problems_per_batch: int = 4
    rate_rule: RateRule = "constant"
    reference_n: int = 32
    seed: int = 0

    @property
    def base_reward(self) -> float:
        """Expected reward of the uniform policy."""
        return (self.right + (self.answers - 1) * self.wrong) / self.answers

    def rate(self, n: int) -> float:
        """Adam's learning rate for n rollouts a problem."""
        if self.rate_rule == "constant":
            return self.learning_rate
        return self.learning_rate * math.sqrt(n / self.reference_n)


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """`features`: (problems, features); `scores`: (problems, answers) chance that one scores."""

    features: Singles
    scores: Singles

    def reward(self, weights: Singles) -> Floats:
        """Expected reward of every run: (runs,) of weights (runs, features, answers)."""
        rates = _softmax(self.features @ weights)  # (runs, problems, answers)
        return np.asarray((rates * self.scores).sum(axis=2).mean(axis=1), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """Runs of one n. `compute`: (records,) rollouts; `reward`: (runs, records) held out, exact."""

    compute: Floats
    reward: Floats

    def at(self, compute: Floats) -> Floats:
        """Rewards at other computes, linear in log C between records: (runs, computes)."""
        place = np.interp(np.log(compute), np.log(self.compute), np.arange(len(self.compute)))
        below = np.minimum(place.astype(int), len(self.compute) - 2)
        share = place - below
        return np.asarray((1 - share) * self.reward[:, below] + share * self.reward[:, below + 1])


def problems_of(setting: Setting) -> tuple[Problems, Problems]:
    """Training and held-out problems: the same for all runs."""
    rng = np.random.default_rng([setting.seed, 7])
    count = setting.train + setting.held_out
    features = rng.normal(0, 1 / math.sqrt(setting.features), (count, setting.features))
    if setting.teacher:
        answers = (features @ rng.normal(0, 1, (setting.features, setting.answers))).argmax(axis=1)
    else:
        answers = rng.integers(0, setting.answers, count)
    scores = np.full((count, setting.answers), setting.wrong)
    scores[np.arange(count), answers] = setting.right
    made = features.astype(np.float32), scores.astype(np.float32)
    train = Problems(features=made[0][: setting.train], scores=made[1][: setting.train])
    if not setting.held_out:
        return train, train
    return train, Problems(features=made[0][setting.train :], scores=made[1][setting.train :])


def train(setting: Setting, n: int, runs: int, rollouts: float, first: float) -> Runs:
    """Train `runs` policies with n for `rollouts` each, recorded from compute `first` on.

    The same arguments give the same runs, whatever else is trained.
    """
    rng = np.random.default_rng([setting.seed, n])
    problems, held_out = problems_of(setting)
    batch = n * setting.problems_per_batch
    last = max(2, round(rollouts / batch))
    wanted = max(1.0, first / batch)
    points = math.ceil(math.log10(last / wanted) * _RECORDS_PER_DECADE) + 1
    steps = np.unique(np.geomspace(wanted, last, max(2, points)).round().astype(int))
    weights = np.zeros((runs, setting.features, setting.answers), np.float32)
    adam = _Adam(weights, setting.rate(n))
    rewards, recorded = [], set(steps.tolist())
    for step in range(1, last + 1):
        adam.climb(gradient(setting, problems, weights, n, rng))
        if step in recorded:
            rewards.append(held_out.reward(weights))
    return Runs(compute=steps * float(batch), reward=np.stack(rewards, axis=1))


def gradient(
    setting: Setting, problems: Problems, weights: Singles, n: int, rng: np.random.Generator
) -> Singles:
    """GRPO's gradient of every run: (runs, features, answers).

    Advantages add up to nothing in a group, so the policy's mean drops out of the gradient of
    log pi: what is left of a group is the sum of advantages of each answer.
    """
    count = len(problems.features)
    drawn = rng.integers(0, count, (len(weights), setting.problems_per_batch))
    features = problems.features[drawn]  # (runs, B, features)
    rates = _softmax(features @ weights).astype(np.float64)  # (runs, B, answers)
    answers = rng.multinomial(n, rates / rates.sum(axis=2, keepdims=True))
    scores = problems.scores[drawn]
    certain = setting.right == 1.0 and setting.wrong == 0.0
    scored = answers * scores if certain else rng.binomial(answers, scores)
    mean = scored.sum(axis=2, keepdims=True) / n
    spread = np.sqrt(mean * (1 - mean))
    alike = spread == 0
    share = np.where(alike, 0.0, (scored - answers * mean) / np.where(alike, 1.0, spread) / n)
    ascent = features.transpose(0, 2, 1) @ share.astype(np.float32)
    return np.asarray(ascent / setting.problems_per_batch, dtype=np.float32)


class _Adam:
    """Adam on `weights`, in place, upwards."""

    def __init__(self, weights: Singles, rate: float) -> None:
        self.weights, self.rate, self.steps = weights, rate, 0
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)

    def climb(self, gradient: Singles) -> None:
        """One step along `gradient`."""
        self.steps += 1
        for moment, value, decay in (
            (self.mean, gradient, _DECAYS[0]),
            (self.square, gradient * gradient, _DECAYS[1]),
        ):
            moment *= np.float32(decay)
            moment += np.float32(1 - decay) * value
        corrected = [1 - decay**self.steps for decay in _DECAYS]
        root = np.sqrt(self.square * np.float32(1 / corrected[1])) + np.float32(_EPSILON)
        self.weights += np.float32(self.rate / corrected[0]) * self.mean / root


def _softmax(logits: Singles) -> Singles:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))
