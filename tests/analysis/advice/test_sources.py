"""Sources answer as they are published, inside their range and outside of it."""

import json
import math

import pytest
from pydantic import ValidationError

from isosweep.analysis.advice.sources import TABLE, Source, as_sources, sources

BY_NAME = {source.name: source for source in sources()}


def n_of(name: str, compute: float) -> float:
    best = BY_NAME[name].best(compute)
    assert best is not None
    return best.n


# As the Playbook gives them beside the coefficients: 2^(L + b).
@pytest.mark.parametrize(
    ("name", "plateau"),
    [
        ("Playbook, easy, B = 32", 452),
        ("Playbook, hard, B = 32", 153),
        ("Playbook, easy, all B", 431),
        ("Playbook, hard, all B", 129),
        ("Playbook, easy, by tokens", 613),
    ],
)
def test_laws_have_the_published_plateaus(name: str, plateau: float) -> None:
    coefficients = BY_NAME[name].coefficients or {}
    assert 2 ** (coefficients["rise"] + coefficients["floor"]) == pytest.approx(plateau, rel=0.01)


# Where the next n takes over in the Playbook's figure 6, n* lies between the two: their geometric
# mean, within half a doubling.
@pytest.mark.parametrize(
    ("name", "compute", "before", "after"),
    [
        ("Playbook, easy, B = 32", 0.3e6, 8, 32),
        ("Playbook, easy, B = 32", 0.85e6, 32, 128),
        ("Playbook, easy, B = 32", 1.3e6, 128, 256),
        ("Playbook, easy, B = 32", 2.7e6, 256, 512),
        ("Playbook, hard, B = 32", 0.75e6, 8, 128),
    ],
)
def test_the_fits_pass_where_the_figure_has_one_n_take_over_from_another(
    name: str, compute: float, before: int, after: int
) -> None:
    between = math.sqrt(before * after)
    assert abs(math.log2(n_of(name, compute) / between)) < 0.5


@pytest.mark.parametrize(
    ("name", "compute", "n"),
    [
        # log2 n* = 2.73 + 6.09 / (1 + exp(-4.75 (6 - 5.84)))
        ("Playbook, easy, B = 32", 1e6, 117.7),
        ("Playbook, easy, all B", 1e6, 30.96),
        ("Playbook, hard, all B", 1e6, 8.26),
        ("ScaleRL", 5000, 16),
        ("grpo-batch-knobs, GSM8K", 16384, 16),
        ("sorter, 32 problems", 20480, 76.1),
        # A straight line of log n over log C: half of the way.
        ("sorter, 32 problems", math.sqrt(1283 * 20480), math.sqrt(5.19 * 76.1)),
        ("Playbook, easy, B = 64", 2e6, 256),
    ],
)
def test_inside_its_range_a_source_answers_as_published(
    name: str, compute: float, n: float
) -> None:
    assert n_of(name, compute) == pytest.approx(n, rel=0.005)
    assert BY_NAME[name].beyond(compute) == 0


def test_outside_its_range_a_source_answers_with_the_end_and_says_how_far() -> None:
    source = BY_NAME["Playbook, easy, B = 32"]
    assert n_of(source.name, 4e8) == n_of(source.name, 4e6)
    assert n_of(source.name, 1e3) == n_of(source.name, 1e5)
    assert source.beyond(4e8) == pytest.approx(2)
    assert source.beyond(1e3) == pytest.approx(-2)
    # Ends are rounded.
    assert source.beyond(4.01e6) == 0


def test_a_source_whose_compute_is_not_known_is_never_in_range() -> None:
    assert BY_NAME["2-GRPO"].beyond(1e6) is None
    assert n_of("2-GRPO", 1e6) == n_of("2-GRPO", 1.0) == 2


def test_a_statement_gives_no_n() -> None:
    assert BY_NAME["BroRL"].best(1e6) is None


def test_end_points_hold_what_is_said_of_them() -> None:
    """Nine of the 41 runs differ in n; within two standard errors of the best are those given."""
    knobs = [source for source in sources() if source.ends]
    runs = [(end, seed) for source in knobs for end in source.ends for seed in end.rewards]
    assert sum(end.n != 8 for end, _ in runs) == 9
    for source in knobs:
        (point,) = source.points
        ends = {end.n: end.rewards[0] for end in source.ends if end.compute == point.compute}
        best = max(ends.values())
        error = math.sqrt(best * (1 - best) / 512)
        held = [n for n, reward in ends.items() if best - reward < 2 * error]
        assert (min(held), max(held)) == (point.low, point.high)
        assert ends[int(point.n)] == best
        assert {end.n * end.problems_per_batch for end in source.ends} == {512}


@pytest.mark.parametrize("source", sources(), ids=lambda source: source.name)
def test_every_source_says_what_it_was_measured_with(source: Source) -> None:
    assert (source.form == "sigmoid") == (source.coefficients is not None)
    assert (source.form == "points") == bool(source.points)
    assert source.form or source.note
    computes = [point.compute for point in source.points]
    assert computes == sorted(computes)
    if source.range and source.form == "points":
        low, high = source.range
        assert all(low <= compute <= high for compute in computes)
    for point in source.points:
        assert (point.low or point.n) <= point.n <= (point.high or point.n)
        low_n, high_n = source.n_range or (1, 10**6)
        assert low_n <= point.n <= high_n


def test_names_are_of_one_source_each() -> None:
    assert len(BY_NAME) == len(sources()) > 20
    assert TABLE.name == "sources.json"


def test_a_field_that_is_none_is_refused() -> None:
    plain = json.loads(TABLE.read_text())["sources"][0]
    with pytest.raises(ValidationError, match="rnage"):
        as_sources([plain | {"rnage": [1, 2]}])
