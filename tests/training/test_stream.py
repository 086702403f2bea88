"""The order of problems: seeded, endless, resumable, and rid of what is solved."""

import json

from hypothesis import given
from hypothesis import strategies as st

from isosweep.training.retirement import Retirement
from isosweep.training.stream import MixtureStream, ProblemStream


def test_every_epoch_holds_every_problem_once_in_another_order() -> None:
    stream = ProblemStream(10, seed=3)
    first, second = stream.draw(10), stream.draw(10)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert ProblemStream(10, seed=4).draw(10) != first


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 3))
def test_the_order_does_not_depend_on_how_many_are_drawn_at_once(
    counts: list[int], seed: int
) -> None:
    stream, whole = ProblemStream(5, seed), ProblemStream(5, seed)
    drawn = [problem for count in counts for problem in stream.draw(count)]
    assert drawn == whole.draw(sum(counts))


@given(st.integers(0, 30), st.sets(st.integers(0, 8), max_size=5))
def test_a_restored_stream_goes_on_where_it_was(before: int, retired: set[int]) -> None:
    stream = ProblemStream(9, seed=1, least=2)
    stream.draw(before)
    stream.retire(retired)
    other = ProblemStream(9, seed=1, least=2)
    other.restore(stream.to_json())
    assert other.draw(20) == stream.draw(20)
    assert not retired & set(stream.draw(20))


def test_retiring_leaves_a_batch() -> None:
    stream = ProblemStream(6, seed=0, least=4)
    stream.retire(range(6))
    assert stream.retired == [0, 1]
    assert set(stream.draw(8)) == {2, 3, 4, 5}


def mixture(shares: dict[str, float], seed: int = 0) -> MixtureStream:
    """Three problems of each part, in the order of their names."""
    streams = {name: ProblemStream(3, seed) for name in sorted(shares)}
    return MixtureStream(streams, lambda drawn: shares)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(1, 60))
def test_any_stretch_of_a_mixture_holds_its_shares(weights: list[int], drawn: int) -> None:
    shares = {f"p{i}": weight / sum(weights) for i, weight in enumerate(weights)}
    parts = [number // 3 for number in mixture(shares).draw(200)]
    for start in (0, drawn):
        for i, share in enumerate(shares.values()):
            assert abs(parts[start : start + 60].count(i) - 60 * share) < len(shares)


def test_a_share_of_none_is_never_drawn() -> None:
    assert max(mixture({"a": 1.0, "b": 0.0}).draw(100)) == 2


def test_each_part_of_a_mixture_is_gone_through_as_if_alone() -> None:
    drawn = mixture({"a": 0.7, "b": 0.3}, seed=5).draw(40)
    own = [number for number in drawn if number < 3]
    other = [number - 3 for number in drawn if number >= 3]
    assert own == ProblemStream(3, 5).draw(len(own))
    assert other == ProblemStream(3, 5).draw(len(other))
    assert (len(own), len(other)) == (28, 12)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 3))
def test_a_mixture_does_not_depend_on_how_many_are_drawn_at_once(
    counts: list[int], seed: int
) -> None:
    stream, whole = mixture({"a": 0.7, "b": 0.3}, seed), mixture({"a": 0.7, "b": 0.3}, seed)
    assert [p for count in counts for p in stream.draw(count)] == whole.draw(sum(counts))


@given(st.integers(0, 30))
def test_a_restored_mixture_goes_on_where_it_was(before: int) -> None:
    stream, other = mixture({"a": 0.6, "b": 0.3, "c": 0.1}), mixture({"a": 0.6, "b": 0.3, "c": 0.1})
    stream.draw(before)
    other.restore(json.loads(json.dumps(stream.to_json())))
    assert other.draw(40) == stream.draw(40)


def test_a_schedule_moves_the_draws_of_a_mixture() -> None:
    streams = {name: ProblemStream(3, 0) for name in ("a", "b")}
    stream = MixtureStream(streams, lambda drawn: {"a": float(drawn < 10), "b": float(drawn >= 10)})
    assert [number >= 3 for number in stream.draw(20)] == [False] * 10 + [True] * 10


def test_what_is_solved_is_retired_in_its_own_part() -> None:
    streams = {name: ProblemStream(3, 0, 1, Retirement(1.0, 2)) for name in ("a", "b")}
    stream = MixtureStream(streams, lambda drawn: {"a": 0.5, "b": 0.5})
    stream.scored([(1, [1.0, 1.0]), (4, [1.0, 0.0]), (5, [1.0, 1.0])])
    assert stream.retired == [1, 5]
    assert not {1, 5} & set(stream.draw(20))
