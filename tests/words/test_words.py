"""Functions word every kind of conclusion, and each surface reads as its golden file.

`python -m tests.words.test_words` accepts what they say now.
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import pytest

from isosweep.analysis import answer as kinds
from isosweep.analysis.statistics.verdict import ReasonKind, Verdict
from isosweep.pricing import Pricing
from isosweep.words import answer, next, numbers, plan, recommend, status, tracking, verdict  # noqa: A004
from tests.words.answers import (
    ANSWER,
    CAVEATS,
    CHECKPOINTS,
    ENDS,
    EVALUATION,
    NEXT,
    OUTLOOKS,
    PRICING,
    REASONS,
    RECOMMENDED,
    STATUS,
    STEPS,
    TOTALS,
    of_best,
)

HERE = Path(__file__).parent


def surfaces(pricing: Pricing = PRICING) -> dict[str, list[str]]:
    """What each surface says of one answer."""
    found = replace(ANSWER, pricing=pricing)
    report = Path("report.html")
    return {
        "terminal": [
            *answer.analysis(found, report),
            plan.training(18, 2, 240.0, detaches=False),
            plan.training(1, None, 7200.0, detaches=True),
            plan.analysing(18, 12.0),
        ],
        "mlflow": [
            *tracking.answer(found),
        ],
        "answer": [verdict.headline(found), *answer.next_steps(found)],
        "plan": [
            *map(plan.findings, OUTLOOKS),
            plan.evaluation(EVALUATION, 20),
            plan.commanded(["python", "train.py", "--n", "{n}"]),
            plan.checkpoints(CHECKPOINTS, 56.2e9),
            plan.rest(2130.0, pricing),
            plan.above(2130.0, pricing, "max_device_hours", 1000.0),
        ],
        "total": [line for each in TOTALS for line in plan.chosen(*each)],
        "recommend": [
            line
            for split in RECOMMENDED
            for line in recommend.recommendation(split, "flops", None, 0.9, pricing)
        ],
        "next": [line for each in NEXT for line in next.lines(each, pricing)],
        "status": [
            *status.summary(STATUS | {"pricing": asdict(pricing)}),
            status.unanswered(STATUS),
        ],
        "reasons": [f"{kind}: {verdict.reason(each)}" for kind, each in REASONS.items()],
        "best": [
            verdict.both(of_best(ANSWER)),
            *(verdict.reason(of_best(each)) for each in REASONS.values() if each.verdict == "grew"),
        ],
        "leads": [
            f"{kind}: {use} | {grows}"
            for kind, each in REASONS.items()
            for use, grows in [answer.lead(each)]
        ],
        "headlines": [
            f"{kind}: {verdict.headline(each)}"
            for kind, each in {
                **REASONS,
                "best moves": replace(REASONS["constant"], caveats=CAVEATS),
            }.items()
        ],
        "ends": [*map(verdict.open_end, ENDS)],
    }


@pytest.mark.parametrize("surface", surfaces())
def test_each_surface_reads_as_its_golden_file(surface: str) -> None:
    said, golden = surfaces()[surface], (HERE / f"{surface}.txt").read_text().splitlines()
    assert said == golden, "python -m tests.words.test_words accepts it"
    # No page renders it.
    assert "`" not in "".join(said)


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


# Surfaces that show device time.
PRICED = ("mlflow", "plan", "recommend", "next", "status")


@pytest.mark.parametrize("surface", PRICED)
def test_dollars_stand_beside_device_time_where_their_price_is_known(surface: str) -> None:
    priced = surfaces()[surface]
    plain = surfaces(replace(PRICING, dollars_per_hour=None))[surface]
    assert "$" not in " ".join(plain)
    money = r"\$\d[\d,]*(\.\d+)?"
    # Nothing else is another sentence: a line without its dollars is the other line.
    assert [re.sub(rf", {money}( \({money} to {money}\))?", "", line) for line in priced] == plain
    assert priced != plain
    # What was measured has no range.
    sharp = surfaces(replace(PRICING, spread=(1.0, 1.0)))[surface]
    assert (sharp == priced) == (surface in ("mlflow", "status"))


if __name__ == "__main__":
    for name, said in surfaces().items():
        (HERE / f"{name}.txt").write_text("\n".join(said) + "\n")
