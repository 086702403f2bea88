"""The order in which training meets its problems: a function of the seed and of what was drawn.

TRL's RepeatSampler does not serve: it drops the rest of an epoch, so that the order depends on B,
and it knows no problems that are retired, no shares of a mixture, and no further draws of a step.
"""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isosweep.plan.spec import RunSpec


class ProblemStream:
    """Problems in a new random order each epoch, without end.

    The order depends on `seed` and the number of problems alone: runs that differ in n or B meet
    the same problems in the same order (common random numbers).

    A problem is retired once its mean score over a window of `window` rollouts is `retire_at` or
    more: it is passed over from then on (no positive resampling, arXiv 2510.13786), unless fewer
    than `least` would be left. The rollouts of a problem are one sequence, whichever generations
    they come from: how often a problem of a given success rate is retired per rollout does not
    depend on n. ScaleRL keeps "a history of pass rates" (section 3.2) and does not say over how
    many rollouts.
    """

    def __init__(
        self,
        problems: int,
        seed: int,
        least: int = 1,
        *,
        retire_at: float | None = None,
        window: int = 1,
    ) -> None:
        self.problems, self._seed = problems, seed
        self._least = min(least, problems)
        self._retire_at, self._window = retire_at, window
        # Of each problem: rollouts in the window that is being filled, and the sum of their scores.
        self._windows: dict[int, tuple[int, float]] = {}
        self._epoch, self._position = 0, 0
        self._retired: set[int] = set()
        self._order = self._shuffled()

    def draw(self, count: int) -> list[int]:
        """Indices of the next `count` problems that are not retired."""
        drawn: list[int] = []
        while len(drawn) < count:
            if self._position == self.problems:
                self._epoch, self._position = self._epoch + 1, 0
                self._order = self._shuffled()
            index = self._order[self._position]
            self._position += 1
            if index not in self._retired:
                drawn.append(index)
        return drawn

    def scored(self, scores: Iterable[tuple[int, Sequence[float]]]) -> None:
        """Take note of problems' newest `scores`, and retire those that are solved."""
        if self._retire_at is None:
            return
        for problem, given in scores:
            rollouts, total = self._windows.get(problem, (0, 0.0))
            solved = False
            for score in given:
                rollouts, total = rollouts + 1, total + score
                if rollouts == self._window:
                    # Sums of floats: 0.9 of 10 rollouts is 9.
                    solved = solved or total >= self._retire_at * self._window - 1e-9
                    rollouts, total = 0, 0.0
            self._windows[problem] = rollouts, total
            if solved and self.problems - len(self._retired) > self._least:
                self._retired.add(problem)

    @property
    def retired(self) -> Sequence[int]:
        """The problems that are drawn no more, ascending."""
        return sorted(self._retired)

    def to_json(self) -> dict[str, Any]:
        """Where the stream is, for a checkpoint."""
        place = {"epoch": self._epoch, "position": self._position}
        windows = {str(problem): [*held] for problem, held in self._windows.items() if held[0]}
        return {**place, "retired": [*self.retired], "windows": windows}

    def restore(self, document: dict[str, Any]) -> None:
        """Go on where `to_json` was called."""
        before, self._epoch = self._epoch, document["epoch"]
        self._position, self._retired = document["position"], set(document["retired"])
        windows = document.get("windows", {}).items()
        self._windows = {int(problem): (held[0], held[1]) for problem, held in windows}
        if self._epoch != before:
            self._order = self._shuffled()

    def _shuffled(self) -> list[int]:
        order = list(range(self.problems))
        random.Random(f"{self._seed}:{self._epoch}").shuffle(order)
        return order


class MixtureStream:
    """Problems of several streams in turn, numbered one stream after the other.

    Each draw is of the stream that lags furthest behind its share of the draws so far, so that any
    stretch of them holds the shares to within a problem or so. Which that is follows from the
    shares and from how many were drawn, whatever the seed, n and B; each stream is drawn from as if
    it were alone.
    """

    def __init__(self, streams: Mapping[str, ProblemStream], shares: Mapping[str, float]) -> None:
        self._streams, self._shares = streams, shares
        sizes = [stream.problems for stream in streams.values()]
        self._starts = dict(zip(streams, itertools.accumulate([0, *sizes]), strict=False))
        # Draws that each stream's shares so far came to, less those that it has had.
        self._owed = dict.fromkeys(streams, 0.0)

    def draw(self, count: int) -> list[int]:
        """Numbers of the next `count` problems that are not retired."""
        return [self._next() for _ in range(count)]

    def _next(self) -> int:
        for name, share in self._shares.items():
            self._owed[name] += share
        name = max(self._streams, key=lambda each: self._owed[each])
        self._owed[name] -= 1
        return self._starts[name] + self._streams[name].draw(1)[0]

    def scored(self, scores: Iterable[tuple[int, Sequence[float]]]) -> None:
        """Take note of problems' newest `scores`, and retire those that are solved."""
        pairs = list(scores)
        for name, stream in self._streams.items():
            start = self._starts[name]
            own = range(start, start + stream.problems)
            stream.scored((number - start, given) for number, given in pairs if number in own)

    def to_json(self) -> dict[str, Any]:
        """Where the streams are, for a checkpoint."""
        streams = {name: stream.to_json() for name, stream in self._streams.items()}
        return {"owed": dict(self._owed), "streams": streams}

    def restore(self, document: dict[str, Any]) -> None:
        """Go on where `to_json` was called."""
        self._owed = dict(document["owed"])
        for name, stream in self._streams.items():
            stream.restore(document["streams"][name])


Stream = ProblemStream | MixtureStream


def make_stream(spec: RunSpec) -> Stream:
    """The run's training problems, in the order of its seed."""
    recipe, mixture = spec.recipe, spec.task.mixture

    def stream(problems: int) -> ProblemStream:
        return ProblemStream(
            problems,
            spec.seed,
            spec.problems_per_batch,
            retire_at=recipe.retire_at,
            window=recipe.retire_window,
        )

    if mixture is None:
        return stream(spec.task.num_train_problems)
    streams = {name: stream(part.num_train_problems) for name, part in spec.task.parts.items()}
    return MixtureStream(streams, mixture.share_of)
