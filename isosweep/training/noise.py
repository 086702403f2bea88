"""The noise of an update's gradient: how it is summed up, and what is estimated of it.

An update's gradient is the mean of N terms, one for each rollout. Terms of different problems are
independent; terms of one problem share the problem and the group's baseline. So three numbers say
all of the mean's expected square:

    c = E|g|^2                  of a rollout's term
    b = E<g, g'>                of two rollouts of one problem
    a = E<g, g'> = |G|^2        of rollouts of two problems

They are solved for from squared norms of sums of terms: a sum of k of one problem has
E|sum|^2 = k c + k (k - 1) b, and an update with `same` ordered pairs of one problem and `apart` of
two has E|sum|^2 = N c + same b + apart a. Here each problem's rollouts are split at random into
halves, so that norms of halves, of problems and of the update give c, b and a without bias
(arXiv 1812.06162, appendix A.1, with three sizes in place of two).

The trainer's own micro-batches would not do: they are ordered by length, so that two rollouts of
one are more alike than any two, and on small models one of them is the whole update.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from isosweep.files import JsonObject
from isosweep.gradient_noise import GradientNoise
from isosweep.plan.spec import RunSpec

# What is summed over measured updates: a squared norm, and how many terms and ordered pairs of
# terms it is of.
_SUMS = (
    *("half", "half_rollouts", "half_pairs"),
    *("problem", "problem_rollouts", "problem_pairs"),
    *("update", "rollouts", "same", "apart"),
)


class NoiseBooks:
    """Sums over the updates measured since the last record, of all processes."""

    def __init__(self, spec: RunSpec) -> None:
        self.updates, self._sums = 0, dict.fromkeys(_SUMS, 0.0)
        self.begin_phase(spec.num_generations)
        self._every = spec.evaluation.noise_every

    def begin_phase(self, num_generations: int) -> None:
        """Estimate for so many rollouts of a problem from now on; the sums are those of a record,
        and every phase begins after one."""
        self._n = num_generations

    def due(self, step: int) -> bool:
        """Whether the update after `step` updates is measured."""
        return self._every is not None and step % self._every == self._every // 2

    def add(self, sums: Sequence[float]) -> None:
        """An update's numbers, in the order of `_SUMS`."""
        self.updates += 1
        for name, value in zip(_SUMS, sums, strict=True):
            self._sums[name] += value

    def taken(self) -> GradientNoise | None:
        """The estimate over the updates since the last call; None where none was measured.

        A ratio of sums, not a mean of ratios: a, b and c are linear in the squared norms. Estimates
        may be negative. What the make-up of the batches does not tell is None: |G|^2 and the
        variance between problems of one problem a step, and all of it where numbers overflow.
        """
        updates, own = self.updates, self._sums
        self.updates, self._sums = 0, dict.fromkeys(_SUMS, 0.0)
        if not updates:
            return None
        # half = half_rollouts c + half_pairs b; problem = problem_rollouts c + problem_pairs b
        (k, kk), (m, mm) = (
            (own["half_rollouts"], own["half_pairs"]),
            (own["problem_rollouts"], own["problem_pairs"]),
        )
        determinant = k * mm - m * kk
        noise = GradientNoise(updates=updates, num_generations=self._n)
        if not determinant or not all(map(_finite, own.values())):
            return noise
        c = (own["half"] * mm - own["problem"] * kk) / determinant
        b = (own["problem"] * k - own["half"] * m) / determinant
        if not own["apart"]:
            return GradientNoise(updates=updates, num_generations=self._n, within_problems=c - b)
        # update = rollouts c + same b + apart a
        a = (own["update"] - own["rollouts"] * c - own["same"] * b) / own["apart"]
        return GradientNoise(
            updates=updates,
            num_generations=self._n,
            gradient=a,
            between_problems=b - a,
            within_problems=c - b,
        )

    def to_json(self) -> JsonObject:
        """The sums, for a checkpoint."""
        return {"updates": self.updates, **self._sums}

    def restore(self, document: JsonObject) -> None:
        """Put back what `to_json` gave."""
        self.updates = int(document["updates"])
        self._sums = {name: float(document[name]) for name in _SUMS}


def _finite(value: float) -> bool:
    return abs(value) < float("inf")


def norms_of_parts(
    weights: Sequence[Any],
    problems: Sequence[Sequence[int]],
    largest: int,
    generator: torch.Generator,
    backward: Callable[[list[int]], None],
) -> list[float]:
    """Squared norms of the gradients of halves and of problems, with their counts: the first six
    of `_SUMS`.

    `problems`: places of the rollouts of each. `backward` adds the gradient of the rollouts at some
    places to `weights`, which have none before and after: their own memory is what sums up a
    problem's halves. `largest`: most rollouts that it may be given at once.
    """
    halves: list[Any] = []
    hooks = [each.register_hook(lambda g: halves.append(_square(g))) for each in weights]
    sums = [0.0] * 6
    try:
        for places in problems:
            order = torch.randperm(len(places), generator=generator).tolist()
            size = min(largest, -(-len(places) // 2))
            for at in range(0, len(places), size):
                part = [places[i] for i in order[at : at + size]]
                backward(part)
                _count(sums, 0, len(part))
            _count(sums, 3, len(places))
            sums[3] += squared_norm(weights)
            for each in weights:
                each.grad = None
        sums[0] = _total(halves)
    finally:
        for hook in hooks:
            hook.remove()
    return sums


def squared_norm(weights: Sequence[Any]) -> float:
    """Of their gradients, in float32."""
    return _total([_square(each.grad) for each in weights if each.grad is not None])


def _square(gradient: Any) -> Any:
    return torch.linalg.vector_norm(gradient.float()).double().square()


def _total(squares: list[Any]) -> float:
    return float(torch.stack(squares).sum()) if squares else 0.0


def _count(sums: list[float], at: int, rollouts: int) -> None:
    sums[at + 1] += rollouts
    sums[at + 2] += rollouts * (rollouts - 1)
