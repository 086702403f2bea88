"""n*(C) or n_d(C) as numbers: one estimate with its interval at every budget."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from isosweep.analysis.statistics.optima import BestGenerations, Range
from isosweep.compute import BudgetUnit
from isosweep.door.columns import BEST_N
from isosweep.door.display import markdown
from isosweep.door.frames import frame
from isosweep.errors import SettingError
from isosweep.words.numbers import UNITS, amount, interval, short

if TYPE_CHECKING:
    import pandas

Symbol = Literal["n*", "n_d"]
# Budgets are typed in a few digits.
_CLOSE = 0.005


@dataclass(frozen=True, kw_only=True)
class NAt:
    """Rollouts per problem at one budget: `median`, and an interval from `low` to `high`.

    `budget`: compute, in the sweep's unit. `open_below`, `open_above`: whether n may lie below the
    smallest, or above the largest n that was run at this budget.
    """

    budget: float
    median: float
    low: float
    high: float
    open_below: bool
    open_above: bool

    @classmethod
    def of(cls, budget: float, found: Range) -> "NAt":
        """What was found at a budget."""
        return cls(
            budget=budget,
            median=found.interval.median,
            low=found.interval.low,
            high=found.interval.high,
            open_below=found.open_below,
            open_above=found.open_above,
        )

    def __str__(self) -> str:
        """The estimate and its interval, as 76 (54 to 128+)."""
        return interval(
            self.median, self.low, self.high, below=self.open_below, above=self.open_above
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class BestN:
    """Rollouts per problem at every budget, ascending: n*, the best n, or n_d, the smallest n that
    is good enough.

    `median`, `low`, `high`, `open_below`, `open_above` and `budget` are those at the largest budget
    that was read; `at(budget)` and `by_budget` have the others. Intervals cover `confidence`.
    """

    symbol: Symbol
    budget_unit: BudgetUnit
    confidence: float
    estimates: tuple[NAt, ...]

    @classmethod
    def found(
        cls,
        symbol: Symbol,
        optima: Iterable[BestGenerations],
        unit: BudgetUnit,
        confidence: float,
    ) -> "BestN | None":
        """The n that `symbol` names; None where no spread between seeds is known."""
        ranges = ((at.budget, of_symbol(at, symbol)) for at in optima)
        estimates = tuple(NAt.of(budget, found) for budget, found in ranges if found is not None)
        if not estimates:
            return None
        return cls(symbol=symbol, budget_unit=unit, confidence=confidence, estimates=estimates)

    @property
    def largest(self) -> NAt:
        """The estimate at the largest budget that was read."""
        return self.estimates[-1]

    @property
    def budget(self) -> float:
        """The largest budget that was read, in `budget_unit`."""
        return self.largest.budget

    @property
    def median(self) -> float:
        """The n at the largest budget."""
        return self.largest.median

    @property
    def low(self) -> float:
        """The lower end of its interval at the largest budget."""
        return self.largest.low

    @property
    def high(self) -> float:
        """The upper end of its interval at the largest budget."""
        return self.largest.high

    @property
    def open_below(self) -> bool:
        """Whether n at the largest budget may lie below all n that were run there."""
        return self.largest.open_below

    @property
    def open_above(self) -> bool:
        """Whether n at the largest budget may lie above all n that were run there."""
        return self.largest.open_above

    def at(self, budget: float) -> NAt:
        """The estimate at a budget that was read. Raises SettingError for another, with the
        nearest."""
        nearest = min(self.estimates, key=lambda each: abs(each.budget - budget))
        if abs(nearest.budget - budget) > _CLOSE * nearest.budget:
            budgets = ", ".join(short(each.budget) for each in self.estimates)
            rule = f"was not read; the budgets are {budgets}"
            raise SettingError("budget", short(budget), rule, f"budget={short(nearest.budget)}")
        return nearest

    @property
    def by_budget(self) -> "pandas.DataFrame":
        """A frame of all estimates, one row a budget."""
        rows = ({name: getattr(each, name) for name in BEST_N} for each in self.estimates)
        return frame(BEST_N, rows, self.budget_unit)

    def __str__(self) -> str:
        return str(self.largest)

    def __repr__(self) -> str:
        at = amount(self.budget, self.budget_unit)
        return f"<{self.symbol} = {self} at {at}, {self.confidence:.0%} interval>"

    def _repr_markdown_(self) -> str:
        head = f"budget ({UNITS[self.budget_unit]})", f"{self.symbol} ({self.confidence:.0%})"
        rows = [(short(each.budget), str(each)) for each in self.estimates]
        at = amount(self.budget, self.budget_unit)
        return markdown(heading=f"{self.symbol} = {self} at {at}", tables=([head, *rows],))


def of_symbol(at: BestGenerations, symbol: Symbol) -> Range | None:
    """n* or n_d at a budget; None without a spread between seeds."""
    return at.enough if symbol == "n_d" else at.of("best") if at.interval else None
