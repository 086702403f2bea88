"""The order of problems: seeded, endless, resumable, and rid of what is solved: as often whatever n
is, and through checkpoints. And the order of records."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isosweep.compute import Compute
from isosweep.training.schedule import Schedule
from isosweep.training.stream import MixtureStream, ProblemStream, Stream


def test_every_epoch_holds_every_problem_once_in_another_order() -> None:
    stream = ProblemStream(10, seed=3)
    first, second = stream.draw(10), stream.draw(10)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert ProblemStream(10, seed=4).draw(10) != first


def one_stream(seed: int) -> ProblemStream:
    return ProblemStream(9, seed, least=2)


def mixture(seed: int) -> MixtureStream:
    """Three problems of each of three parts, in shares."""
    streams = {name: ProblemStream(3, seed) for name in "abc"}
    return MixtureStream(streams, {"a": 0.6, "b": 0.3, "c": 0.1})


@pytest.mark.parametrize("make", [one_stream, mixture])
@given(counts=st.lists(st.integers(1, 7), min_size=1, max_size=8), seed=st.integers(0, 3))
def test_the_order_depends_neither_on_how_many_are_drawn_at_once_nor_on_a_stop(
    make: Callable[[int], Stream], counts: list[int], seed: int
) -> None:
    stream, whole, other = make(seed), make(seed), make(seed)
    drawn = [problem for count in counts for problem in stream.draw(count)]
    assert drawn == whole.draw(sum(counts))
    other.restore(json.loads(json.dumps(stream.to_json())))
    assert other.draw(40) == stream.draw(40)


def test_retiring_leaves_a_batch() -> None:
    stream = ProblemStream(6, seed=0, least=4, retire_at=1.0)
    stream.scored((problem, [1.0]) for problem in range(6))
    assert stream.retired == [0, 1]
    assert set(stream.draw(8)) == {2, 3, 4, 5}


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4).filter(any), st.integers(1, 60))
def test_any_stretch_of_a_mixture_holds_its_shares(weights: list[int], drawn: int) -> None:
    shares = {f"p{i}": weight / sum(weights) for i, weight in enumerate(weights)}
    streams = {name: ProblemStream(3, 0) for name in shares}
    parts = [number // 3 for number in MixtureStream(streams, shares).draw(200)]
    for start in (0, drawn):
        for i, share in enumerate(shares.values()):
            assert abs(parts[start : start + 60].count(i) - 60 * share) < len(shares)
            assert share or i not in parts


def test_each_part_of_a_mixture_is_gone_through_as_if_alone() -> None:
    drawn = mixture(5).draw(40)
    for part, count in enumerate((24, 12, 4)):
        own = [number - 3 * part for number in drawn if number // 3 == part]
        assert own == ProblemStream(3, 5).draw(count)


def test_what_is_solved_is_retired_in_its_own_part() -> None:
    streams = {name: ProblemStream(3, 0, retire_at=1.0, window=2) for name in ("a", "b")}
    stream = MixtureStream(streams, {"a": 0.5, "b": 0.5})
    stream.scored([(1, [1.0, 1.0]), (4, [1.0, 0.0]), (5, [1.0, 1.0])])
    assert set(stream.draw(20)) == {0, 2, 3, 4}


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 9), st.integers(1, 12))
def test_a_problem_is_retired_by_its_scores_however_they_come(
    scores: list[bool], n: int, window: int
) -> None:
    def stream() -> ProblemStream:
        return ProblemStream(10, 0, retire_at=0.9, window=window)

    values = [float(score) for score in scores]
    whole, parts = stream(), stream()
    whole.scored([(7, values)])
    for at in range(0, len(values), n):
        parts.scored([(7, values[at : at + n])])
        # From a checkpoint between any two generations it goes on alike.
        resumed = stream()
        resumed.restore(json.loads(json.dumps(parts.to_json())))
        parts = resumed
    windows = [values[at : at + window] for at in range(0, len(values) - window + 1, window)]
    solved = any(sum(each) / window >= 0.9 - 1e-9 for each in windows)
    assert whole.retired == parts.retired == ([7] if solved else [])
    assert whole.to_json() == parts.to_json()
    assert whole.draw(20) == parts.draw(20)


def spent(flops: float, rollouts: int = 0) -> Compute:
    """After so many generations that half of one is little."""
    return Compute(generations=10**6, training_flops=flops, rollouts=rollouts)


def test_a_record_is_due_at_every_grid_point_and_once() -> None:
    schedule = Schedule((1e12,), "flops", records_per_decade=2)
    assert schedule.record_due(spent(9e9), spent(1e10))
    assert not schedule.record_due(spent(1e10), spent(3e10))
    assert schedule.record_due(spent(3e10), spent(3.2e10))
    # However many points a step passes: it is one record.
    assert schedule.record_due(spent(1e8), spent(3.1e10))


def test_a_record_is_due_at_every_milestone_and_the_grid_does_not_know_them() -> None:
    few = Schedule((50.0,), "rollouts", records_per_decade=1)
    more = Schedule((50.0, 80.0), "rollouts", records_per_decade=1)
    steps = [spent(1.1e9 + at, rollouts=at) for at in range(0, 120, 10)]
    due = {
        schedule: [b.rollouts for a, b in pairwise(steps) if schedule.record_due(a, b)]
        for schedule in (few, more)
    }
    assert due == {few: [50], more: [50, 80]}
    assert few.is_over(spent(0, rollouts=50))
    assert not more.is_over(spent(0, rollouts=79))
