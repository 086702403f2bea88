"""The order of problems: seeded, endless, resumable, and rid of what is solved."""

from hypothesis import given
from hypothesis import strategies as st

from isosweep.training.stream import ProblemStream


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
