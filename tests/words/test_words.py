"""A conclusion of every kind is worded as in one golden file, briefly, and numbers read well.

`python -m tests.words.test_words` accepts what is said now.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from isosweep.analysis import answer as kinds
from isosweep.analysis.statistics.verdict import ReasonKind, Verdict
from isosweep.words import answer, numbers, tracking, verdict
from tests.words.answers import ANSWER, CAVEATS, ENDS, PRICING, REASONS, STEPS, of_best

GOLDEN = Path(__file__).with_name("said.txt")


def said() -> Iterator[str]:
    """What is said of an answer on a terminal, in the report and in MLflow; of each kind the
    headline, the reason and what is advised."""
    yield from answer.analysis(ANSWER, Path("report.html"))
    yield verdict.headline(ANSWER)
    yield from answer.next_steps(ANSWER)
    yield from tracking.answer(ANSWER)
    yield from map(verdict.open_end, ENDS)
    for kind, each in REASONS.items():
        yield f"{kind}: {verdict.headline(each)} | {verdict.reason(each)}"
        yield f"{kind}: {' | '.join(answer.lead(each))}"
        if each.verdict == "grew":
            yield verdict.reason(of_best(each))
    yield verdict.headline(replace(REASONS["constant"], caveats=CAVEATS))


def test_what_is_said_of_an_answer_reads_as_the_golden_file() -> None:
    lines = [*said()]
    assert lines == GOLDEN.read_text().splitlines(), "python -m tests.words.test_words accepts it"
    # No page renders it.
    assert "`" not in "".join(lines)


def test_a_rate_below_zero_is_not_worded_as_growth() -> None:
    grew = next(each for each in REASONS.values() if "it grows by" in verdict.reason(each))
    assert grew.growth is not None
    falling = replace(grew.growth, rate=replace(grew.growth.rate, median=-0.37))
    said = verdict.reason(replace(grew, growth=falling))
    assert "it changes by -0.37 (" in said
    assert "it grows by" not in said


def test_every_kind_is_worded_and_no_two_read_alike() -> None:
    headlines = {each.verdict: each for each in REASONS.values() if each.generations}
    for every, shown, said in (
        (ReasonKind, REASONS, [verdict.reason(each) for each in REASONS.values()]),
        (Verdict, headlines, [verdict.headline(each) for each in headlines.values()]),
        (kinds.Caveat, map(type, CAVEATS), answer.caveats(replace(ANSWER, caveats=CAVEATS))),
        (
            kinds.NextStep,
            map(type, STEPS),
            [answer.next_steps(replace(ANSWER, next_steps=(each,)))[0] for each in STEPS],
        ),
    ):
        assert {*shown} == {*get_args(every)}
        assert all(said)
        assert len(set(said)) == len(said) == len(get_args(every))


@pytest.mark.parametrize("kind", REASONS)
def test_an_answer_is_given_in_25_words_or_fewer(kind: str) -> None:
    assert len(verdict.finding(REASONS[kind]).split()) <= 25


def test_numbers_read_well() -> None:
    assert numbers.setting([20500.0, 1e20, 0.5, "tiny", None]) == "[20500,1e20,0.5,tiny,null]"
    assert [numbers.size(each) for each in (18.5e9, 1.2e12, 0, 1.4e6)] == [
        *("18.5 GB", "1.2 TB", "0 MB", "1.4 MB")
    ]
    assert [numbers.duration(each) for each in (-1, 40, 150, 12_600, 181_440)] == [
        *("0 s", "40 s", "2 min", "3.5 h", "2.1 d")
    ]
    assert [numbers.in_hours(each) for each in (0.01, 0.2, 3.5, 3006)] == [
        *("36 s", "12 min", "3.5 h", "3,010 h")
    ]
    assert [numbers.in_dollars(each) for each in (0, 0.001, 0.42, 7.2, 63.4, 6316)] == [
        *("$0", "under $0.01", "$0.42", "$7.20", "$63", "$6,320")
    ]
    assert [numbers.of_100(each) for each in (0.01, 0.33, 0.99)] == [
        *("under 5", "about 35", "over 95")
    ]
    assert [numbers.percent(each) for each in (0.0001, 0.034, 0.2)] == ["under 0.1%", "3.4%", "20%"]
    assert numbers.interval(23, 8, 51) == "23 (8 to 51)"
    assert numbers.interval(4, 4, 7, below=True) == "4 (4 or less to 7)"
    assert [numbers.short(each) for each in (23, 1020, 1e18, 3.162e19)] == [
        *("23", "1020", "1e18", "3.16e19")
    ]
    assert numbers.listed((4, 8, 16)) == "4, 8 and 16"


def test_a_price_has_its_range_in_one_unit() -> None:
    for hours, said in (
        (2134, "2,130 h (1,400 to 3,200), $6,400 ($4,300 to $9,600)"),
        (0.2, "12 min (8 to 18), $0.60 ($0.40 to $0.90)"),
        (1e-3, "4 s (2 to 5), under $0.01"),
        (0, "0 s, $0"),
    ):
        assert numbers.price(hours, PRICING) == said
        assert numbers.price(hours, replace(PRICING, dollars_per_hour=None)) in said
        assert "(" not in numbers.price(hours, PRICING, predicted=False)


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(said()) + "\n")
