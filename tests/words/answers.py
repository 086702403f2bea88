"""Answers whose reasons are of every kind: what the words of a conclusion are made of."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

from isosweep.analysis import answer as kinds
from isosweep.analysis.answer import Answer, read_answer
from isosweep.analysis.statistics.verdict import OpenEnd, Reason, ReasonKind, Verdict
from isosweep.pricing import Pricing


def _stored() -> Answer:
    """The answer of answer.json, which has every kind of caveat and next step."""
    answer = read_answer(Path(__file__).with_name("answer.json"))
    assert answer is not None
    return answer


_STORED = _stored()
CAVEATS, STEPS = _STORED.caveats, _STORED.next_steps
# Without those that change the headline, and a step that is another answer's.
ANSWER = replace(
    _STORED,
    caveats=tuple(c for c in CAVEATS if not isinstance(c, kinds.CoarseMargin | kinds.BestMoves)),
    next_steps=tuple(step for step in STEPS if not isinstance(step, kinds.NewRecipe)),
)
# $3 an hour, and predictions by assumed efficiencies.
PRICING = Pricing(dollars_per_hour=3.0, spread=(0.67, 1.5))
END = OpenEnd(kind="above", edge=64)
ENDS = (END, OpenEnd(kind="below", edge=64), OpenEnd(kind="missing", edge=64, n=(8,)))
# A verdict that each kind of reason goes with.
_VERDICTS: dict[str, Verdict] = {
    "harmless": "n does not matter",
    **{kind: kind for kind in ("fell", "saturated", "growing", "grew", "constant", "steady")},
    **{kind: kind for kind in ("probably saturated", "probably growing")},
}


# Kinds that say where the n may lie that was not measured.
_OPEN = ("edge", "probably saturated", "growing", "probably growing", "grew", "undecided")


def of_kind(kind: ReasonKind) -> Answer:
    """An answer whose reason is of that kind, with the numbers that such a reason has."""
    reason = Reason(
        kind=kind,
        confidence=0.9,
        quantity="enough",
        margin=0.02,
        measured=(4, 16, 64),
        fell=(64,) if kind in ("few n", "all fell") else (),
        edge=64,
        end=END if kind in _OPEN else None,
        num_budgets=2,
    )
    nothing = kind in ("no record", "all fell")
    lacking = nothing or kind in ("few n", "few budgets", "one seed", "no spread")
    return replace(
        ANSWER,
        verdict=_VERDICTS.get(kind, "not identified"),
        reason=reason,
        harmless=() if lacking else ANSWER.harmless,
        use=None if nothing else ANSWER.use,
        reward=None if nothing else ANSWER.reward,
        generations=() if nothing else ANSWER.generations,
    )


def of_best(answer: Answer) -> Answer:
    """The same answer, were n* judged."""
    return replace(answer, reason=replace(answer.reason, quantity="best"))


REASONS = {kind: of_kind(kind) for kind in get_args(ReasonKind)}
