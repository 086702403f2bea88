"""The best value of a setting at two cells, how surely, and what goes from one to the other.

At each cell the values have n's place (`analysis.tuned`), and what is said of the best one is said
as of the best n: by the reward surface, over runs that keep their gain and those that do not. The
best rate of the second cell over that of the anchor, against the ratio of their completions per
step, is the exponent of the rule that would have served both; and each rule costs what is lost by
taking the anchor's best value to the second cell with it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from annotated_types import MinLen

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Confidence, Count, NotNegative, Positive, Share
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean, Choice
from isosweep.analysis.statistics.intervals import Interval, central_ends
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.tuned import TunedCell
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig

TUNING_VERSION: Final = 1
# Exponents of n x B in the rules of the learning rate.
RULES: Mapping[str, float] = {"constant": 0.0, "sqrt": 0.5, "linear": 1.0}


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One value, or pair of values, at one budget."""

    values: dict[str, float]
    """Each setting's, in its unit."""
    mean: Share
    """Measured reward, mean over the seeds that keep their gain."""
    num_seeds: AtLeastOne
    """Seeds in mean."""
    num_fallen: Count
    """Further seeds, which had collapsed or diverged by then."""
    expected: float | None
    """Reward to expect of a new run; null without a spread between seeds."""
    interval: tuple[float, float] | None
    """Ends of its interval. Reward."""
    loss: NotNegative | None
    """Reward expected to be lost against the best of those tried."""
    probability_best: Share | None
    """That no other one tried at this budget is better. A share; null where no other was tried."""


@dataclass(frozen=True, kw_only=True)
class TunedAt:
    """What one cell shows of the settings at one budget."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    budget: Positive
    """In unit."""
    tried: Annotated[tuple[Tried, ...], MinLen(1)]
    """By value, ascending."""
    best: Tried
    """The one with the greatest reward to expect."""
    optimum: Interval | None
    """Where the first setting is best, between the values tried; null without seeds."""
    open_below: bool
    """Whether it may as well lie below all values tried here."""
    open_above: bool
    """Whether it may as well lie above them."""

    def learns(self, base: float | None) -> bool:
        """Whether the best value beats the reward before training, as far as that is known."""
        reached = self.best.mean if self.best.expected is None else self.best.expected
        return base is None or reached > base


@dataclass(frozen=True, kw_only=True)
class RateRule:
    """A rule of the learning rate by n x B, judged at the second cell."""

    rule: str
    """Name of recipe.learning_rate_rule."""
    exponent: float
    """Of n x B. No unit."""
    agrees: bool | None
    """Whether the interval of the measured exponent has it; null where that was not measured."""
    loss: NotNegative | None
    """Reward expected to be lost at the second cell by the anchor's best value under this rule;
    null where that lies beyond the values tried there."""
    loss_upper: NotNegative | None
    """Upper bound of the loss at the confidence. Reward."""


@dataclass(frozen=True, kw_only=True)
class Preference:
    """What the second cell gains on the anchor with one value at both."""

    values: dict[str, float]
    """Each setting's, in its unit."""
    gain: Interval
    """Reward at the second cell less that at the anchor."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What a sweep over values of one setting or two has shown; the first cell is the anchor."""

    unit: BudgetUnit
    """Unit of budgets and compute."""
    settings: Annotated[tuple[str, ...], MinLen(1)]
    """The settings that were tuned."""
    confidence: Confidence
    """Confidence of all intervals. A share."""
    compute: NotNegative
    """Spent by all runs together, in unit."""
    share: NotNegative
    """Of what every value at every seed, trained to the end, would take."""
    base_reward: Share | None
    """Mean over runs before training; null without such records."""
    cells: tuple[TunedAt, ...]
    """At the largest budget that each cell was read at; none without records."""
    courses: tuple[TunedAt, ...]
    """At the budgets below."""
    exponent: Interval | None
    """Of n x B in the best learning rate, between the two cells; null for other settings, one cell,
    and where optima at edges of what was tried leave it open on both sides."""
    exponent_open_below: bool
    """Whether it may be smaller than the interval says, as an optimum may lie beyond all values."""
    exponent_open_above: bool
    """Whether it may be larger than the interval says."""
    rules: tuple[RateRule, ...]
    """The rules of the learning rate; none for other settings or one cell."""
    untried: tuple[dict[str, float], ...]
    """Values of which no run of some cell was read: the compute was spent before."""
    preferences: tuple[Preference, ...]
    """By value that both cells were read with."""
    best_gain: Interval | None
    """Reward at the second cell less that at the anchor, each with its own best value."""


def find_tuning(cells: Sequence[TunedCell], config: AnalysisConfig, rule: str | None) -> Tuning:
    """What `cells`, the anchor first, show; `rule`: that by which the learning rate went with n x B
    in these runs, None where another setting was tuned."""
    seen = [_Seen.of(cell, config) for cell in cells]
    read = [each for each in seen if each.courses]
    last = tuple(each.courses[-1] for each in read)
    spent = math.fsum(float(c.compute[-1]) for e in cells for c in e.data.curves if c.compute.size)
    whole = math.fsum(run.milestones[-1] for cell in cells for run in cell.plan.runs)
    both = _Both(*read[:2]) if len(read) > 1 and all(each.surface for each in read) else None
    rated = _Rated() if both is None or rule is None else both.rated(rule, config.confidence)
    return Tuning(
        unit=cells[0].plan.budget_unit,
        settings=tuple(scale.setting for scale in cells[0].scales),
        confidence=config.confidence,
        compute=spent,
        share=spent / whole,
        base_reward=_base(cells),
        cells=last,
        courses=tuple(at for each in read for at in each.courses[:-1]),
        exponent=rated.exponent,
        exponent_open_below=rated.below,
        exponent_open_above=rated.above,
        rules=rated.rules,
        untried=_untried(cells),
        preferences=() if both is None else both.preferences(config.confidence),
        best_gain=None if both is None else both.best_gain(config.confidence),
    )


def _base(cells: Sequence[TunedCell]) -> float | None:
    curves = [curve for cell in cells for curve in cell.data.curves]
    known = [base for curve in curves if (base := curve.base_reward) is not None]
    return math.fsum(known) / len(known) if known else None


def _untried(cells: Sequence[TunedCell]) -> tuple[dict[str, float], ...]:
    found = dict[tuple[tuple[str, float], ...], dict[str, float]]()
    for cell in cells:
        read = {
            reading.cell.run_id
            for reading in cell.data.readings
            if reading.reward is not None or reading.fallen is not None
        }
        tried = [cell.values_at(run) for run in cell.plan.runs if run.run_id in read]
        every = [cell.values_at(run) for run in cell.plan.runs]
        found |= {tuple(values.items()): values for values in every if values not in tried}
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """One cell, its surface, and what was tried at each budget, ascending."""

    cell: TunedCell
    surface: Surface | None
    courses: tuple[TunedAt, ...]

    @classmethod
    def of(cls, cell: TunedCell, config: AnalysisConfig) -> "_Seen":
        surface, frontier = fit_budgets(cell.data, config)
        courses = tuple(
            _at(cell, at, surface, k, config.confidence) for k, at in enumerate(frontier.budgets)
        )
        return cls(cell=cell, surface=surface, courses=courses)

    @property
    def last(self) -> TunedAt:
        return self.courses[-1]

    @property
    def log2_best(self) -> FloatArray:
        """Place of the first setting's best value at the last budget: (draws,)."""
        assert self.surface is not None
        return _log2_best(self.surface, -1)

    def rewards(self, values: Mapping[str, float]) -> FloatArray:
        """Rewards with these values at the last budget: (draws,)."""
        assert self.surface is not None
        places = [s.place_of(values[s.setting]) for s in self.cell.scales]
        row, batches = self.surface.column(places[0]), self.surface.batches
        column = batches.index(places[1]) if len(places) > 1 and len(batches) > 1 else 0
        return np.asarray(self.surface.draws[:, -1, row, column])


def _at(
    cell: TunedCell, at: BudgetFrontier, surface: Surface | None, k: int, confidence: float
) -> TunedAt:
    # Of two settings a choice is one value of the first, at the best of the second.
    tried = tuple(_tried(cell, choice) for choice in at.choices)
    best = tried[at.choices.index(at.best)]
    optimum, below, above = None, False, False
    if surface is not None:
        log2_best = _log2_best(surface, k)
        low, high = central_ends(log2_best, confidence)
        ends = surface.log2_n[[0, -1]]
        below, above = bool(low <= ends[0] + 1e-9), bool(high >= ends[1] - 1e-9)
        places = np.array([np.median(log2_best), low, high])
        optimum = Interval.of(np.array([cell.scales[0].value_of(2.0**p) for p in places]))
    return TunedAt(
        num_generations=cell.cell.num_generations,
        problems_per_batch=cell.cell.problems_per_batch,
        budget=at.budget,
        tried=tried,
        best=best,
        optimum=optimum,
        open_below=below,
        open_above=above,
    )


def _tried(cell: TunedCell, choice: Choice) -> Tried:
    mean: CellMean = choice.cell
    return Tried(
        values=cell.values_at(mean),
        mean=mean.mean,
        num_seeds=mean.num_seeds,
        num_fallen=mean.num_fallen,
        expected=choice.expected,
        interval=choice.interval,
        loss=None if choice.expected is None else choice.loss,
        probability_best=choice.probability_best,
    )


def _by_value(surface: Surface, k: int) -> FloatArray:
    """Rewards at one budget by the first setting, at the best of the second, between the least and
    the largest value that was tried at any budget: (draws, places). Where a value was not trained
    as far as this one, the surface goes on from smaller budgets, and is as wide as that is."""
    return np.asarray(surface.draws[:, k].max(axis=2))


def _log2_best(surface: Surface, k: int) -> FloatArray:
    return np.asarray(surface.log2_n[_by_value(surface, k).argmax(axis=1)])


@dataclass(frozen=True, kw_only=True)
class _Rated:
    """The exponent, whether it may be smaller or larger than the values tried can show, and the
    rules, as `Tuning` has them."""

    exponent: Interval | None = None
    below: bool = False
    above: bool = False
    rules: tuple[RateRule, ...] = ()


@dataclass(frozen=True, eq=False)
class _Both:
    """The two cells beside each other."""

    anchor: _Seen
    second: _Seen

    @property
    def doublings(self) -> float:
        """Of completions per step from the anchor to the second cell."""
        return math.log2(math.prod(self.second.cell.cell) / math.prod(self.anchor.cell.cell))

    def rated(self, own: str, confidence: float) -> _Rated:
        """What is said of the learning rate, which went by the rule `own` in these runs."""
        anchor, second = self.anchor.last, self.second.last
        below = anchor.open_above or second.open_below
        above = anchor.open_below or second.open_above
        exponent, allowed = None, None
        if not (below and above):
            moved = _paired(self.second.log2_best, self.anchor.log2_best)
            exponent = Interval.central(RULES[own] + moved / self.doublings, confidence)
            # A rule at the very end of the interval is in it.
            low, high = exponent.low - 1e-9, exponent.high + 1e-9
            allowed = -math.inf if below else low, math.inf if above else high
        rules = []
        for rule, power in RULES.items():
            losses = self._losses(power - RULES[own])
            rules.append(
                RateRule(
                    rule=rule,
                    exponent=power,
                    agrees=None if allowed is None else allowed[0] <= power <= allowed[1],
                    loss=None if losses is None else float(losses.mean()),
                    loss_upper=None if losses is None else float(np.quantile(losses, confidence)),
                )
            )
        return _Rated(exponent=exponent, below=below, above=above, rules=tuple(rules))

    def _losses(self, further: float) -> FloatArray | None:
        """Reward lost at the second cell, (draws,), by the anchor's best value times the ratio of
        completions to the power `further`; None beyond what was tried there."""
        surface, scale = self.second.surface, self.anchor.cell.scales[0]
        assert surface is not None
        best = self.anchor.last.best.values[scale.setting]
        place = math.log2(scale.place_of(best)) + further * self.doublings
        # Half a doubling beyond the last value is as near to it as rates are set.
        if not surface.log2_n[0] - 0.5 <= place <= surface.log2_n[-1] + 0.5:
            return None
        by_value = _by_value(surface, -1)
        column = int(np.abs(surface.log2_n - place).argmin())
        # As the loss of a value that was tried: against the best of those that were.
        best = by_value[:, surface.measured[-1]].max(axis=1)
        return np.asarray(np.maximum(best - by_value[:, column], 0.0))

    def preferences(self, confidence: float) -> tuple[Preference, ...]:
        """By value that both cells were read with."""
        there = [tried.values for tried in self.second.last.tried]
        shared = [tried.values for tried in self.anchor.last.tried if tried.values in there]
        return tuple(
            Preference(values=values, gain=self._gain(values, values, confidence))
            for values in shared
        )

    def best_gain(self, confidence: float) -> Interval:
        """With each cell's own best value."""
        return self._gain(self.second.last.best.values, self.anchor.last.best.values, confidence)

    def _gain(self, own: Mapping[str, float], other: Mapping[str, float], level: float) -> Interval:
        """Reward at the second cell with its `own` values, less the anchor's with the `other`."""
        gained = _paired(self.second.rewards(own), self.anchor.rewards(other))
        return Interval.central(gained, level)


def _paired(left: FloatArray, right: FloatArray) -> FloatArray:
    """Draws of the difference: those of two cells are independent; their order does not pair
    them."""
    shuffled = np.random.default_rng(0).permutation(left)
    size = min(len(left), len(right))
    return np.asarray(shuffled[:size] - right[:size])
