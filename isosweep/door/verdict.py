"""The verdict of a sweep: what it says, how sure that is, and how a notebook shows it."""

from dataclasses import dataclass

from isosweep.analysis.answer import Answer
from isosweep.analysis.conclude import conclude
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import BestGenerations
from isosweep.analysis.statistics.verdict import Verdict as Kind
from isosweep.compute import BudgetUnit
from isosweep.config.study import Quantity
from isosweep.door.best_n import BestN, NAt, Symbol, of_symbol
from isosweep.door.display import markdown
from isosweep.words import answer as words
from isosweep.words.numbers import UNITS, short
from isosweep.words.verdict import headline, judged, reason

# What each probability is of, by its name in `Growth`.
_CLAIMS = {
    "grew": "{n} grew by a doubling or more",
    "fell": "it ends a doubling or more below an earlier one",
    "unchanged": "it ends less than a doubling from where it was first known",
    "stopped": "at the largest budgets it changes by less than the bound",
    "settled": "it grew and has stopped",
    "rising": "it grew and still does",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """A sweep's answer: whether the best n still grows with compute, and which n to use.

    `kind`: the answer in a word or two, such as "growing". `sentence`: the same with its numbers.
    `reason`: what it rests on. `caveats`: what it must not be read without. `summary`: what to use,
    and how sure that is. `quantity`: the n that is judged (`analysis.quantity`): "enough", n_d, the
    smallest n that is good enough, or "best", n*. `probabilities`: of "grew", "fell", "unchanged",
    "stopped", "settled" and "rising", from 0 to 1; empty where the sweep is too small.
    `rate`: growth of that n at the largest budgets, in doublings per decade of compute, with its
    interval at `confidence`; None where the sweep is too small. `optima`: n* and n_d at every
    budget, in `budget_unit`, as the analysis has them. `answer`: all of this as kinds and numbers.
    """

    kind: Kind
    quantity: Quantity
    sentence: str
    reason: str
    caveats: tuple[str, ...]
    summary: tuple[str, ...]
    probabilities: dict[str, float]
    rate: Interval | None
    optima: tuple[BestGenerations, ...]
    confidence: float
    budget_unit: BudgetUnit
    answer: Answer

    @classmethod
    def of(cls, data: SweepData, findings: Findings) -> "Verdict":
        """The verdict on what was found in `data`."""
        answer = conclude(data, findings)
        growth = answer.growth
        return cls(
            kind=answer.verdict,
            quantity=answer.reason.quantity,
            sentence=headline(answer),
            reason=reason(answer),
            caveats=tuple(words.caveats(answer)),
            summary=tuple(words.summary(answer)),
            probabilities={name: getattr(growth, name) for name in _CLAIMS} if growth else {},
            rate=growth.rate if growth else None,
            optima=answer.optima,
            confidence=answer.confidence,
            budget_unit=answer.budget_unit,
            answer=answer,
        )

    @property
    def n_star(self) -> BestN | None:
        """n*, the best n, with its interval at every budget, and first at the largest.

        None where it is not identified: no spread between seeds is known.
        """
        return BestN.found("n*", self.optima, self.budget_unit, self.confidence)

    @property
    def n_d(self) -> BestN | None:
        """n_d, the smallest n that is good enough, with its interval at every budget.

        None as for `n_star`.
        """
        return BestN.found("n_d", self.optima, self.budget_unit, self.confidence)

    def __repr__(self) -> str:
        return f"{self.kind}: {self.sentence}"

    def _repr_markdown_(self) -> str:
        tables: list[list[tuple[str, ...]]] = []
        if self.optima:
            sure = f"({self.confidence:.0%})"
            head = (
                f"budget ({UNITS[self.budget_unit]})",
                f"n*, the best n {sure}",
                f"n_d, the smallest n that is good enough {sure}",
            )
            rows = (
                (short(at.budget), _shown_n(at, "n*") or at.listed, _shown_n(at, "n_d"))
                for at in self.optima
            )
            tables.append([head, *rows])
        if self.probabilities:
            n = judged(self.answer)
            claims = [
                (_CLAIMS[name].format(n=n), f"{p:.0%}") for name, p in self.probabilities.items()
            ]
            tables.append([("that", "probability"), *claims])
        others = (sentence for sentence in self.summary if sentence != self.sentence)
        return markdown(
            heading=self.kind,
            sentences=(self.sentence, *self.caveats, self.reason, *others),
            tables=tuple(tables),
        )


def _shown_n(at: BestGenerations, symbol: Symbol) -> str:
    """An n with its interval; "" where no spread between seeds is known."""
    found = of_symbol(at, symbol)
    return "" if found is None else str(NAt.of(at.budget, found))
