"""Several sweeps beside each other: recipes, models, data sizes.

Recipes are compared as ScaleRL does (arXiv 2510.13786), by asymptote A and exponent B of the same
(n, B) with their errors over seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Share
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.entries import Entry, scored_otherwise
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import Range
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig

Kind = Literal["sweep", "variant"]
COMPARISON_VERSION: Final = 5
# ScaleRL's error of A between seeds, taken where one seed shows none.
SEED_ERROR = 0.02


@dataclass(frozen=True, kw_only=True)
class AtBudget:
    """The best of one entry at one budget."""

    entry: str
    """Name of the entry."""
    budget: Positive
    """In unit."""
    best_n: AtLeastOne
    """Rollouts per problem, n."""
    best_batch: AtLeastOne
    """Problems per batch, B."""
    reward: float
    """What they are expected to reach; their mean reward where nothing is expected."""
    interval: tuple[float, float] | None
    """Of the reward; null without a spread between seeds."""
    better: Share | None
    """Probability that its best reward lies above that of the first entry; null for the first, and
    without seeds."""
    n_star: Range | None
    """n*, the best n, planned or not; null without a spread between seeds."""
    n_d: Range | None
    """The smallest n that is good enough; null likewise."""


@dataclass(frozen=True, kw_only=True)
class LawOfCell:
    """R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B) of one (n, B) in one entry, over seeds."""

    entry: str
    """Name of the entry."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch."""
    num_seeds: AtLeastOne
    """Seeds that it rests on."""
    asymptote: Interval
    """A. Reward."""
    exponent: Interval
    """B, the exponent. No unit."""
    midpoint: Positive
    """C_mid, in unit."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What an isosweep comparison.json holds: what sets the entries apart. n: rollouts per problem;
    B: problems per batch. Rewards are held-out, from 0 to 1. Null: not known or not identified."""

    version: Literal[5] = COMPARISON_VERSION
    """Version of this format. No unit."""
    kind: Kind
    """What an entry is."""
    one_pair: bool
    """Whether all have one and the same (n, B), so that nothing is asked of n."""
    scored_otherwise: tuple[str, ...]
    """Settings that differ and say which problems a reward is of, or how they are scored: with
    any, the rewards of one entry are no measure of another's."""
    unit: BudgetUnit
    """Unit of every compute in this file."""
    verdicts: dict[str, Verdict]
    """Of each entry alone, by its name."""
    frontiers: tuple[AtBudget, ...]
    """Entry after entry, by budgets that it has reached, ascending."""
    cells: tuple[LawOfCell, ...]
    """Of every (n, B) that all entries have run, and whose A is identified in all of them."""


def compare(entries: Sequence[Entry], config: AnalysisConfig, kind: Kind = "sweep") -> Comparison:
    """Two entries or more, with budgets in one unit."""
    return Comparison(
        kind=kind,
        one_pair=len({Pair.of(run) for entry in entries for run in entry.data.plan.runs}) == 1,
        scored_otherwise=tuple(scored_otherwise(entries, config.evaluation_set)),
        unit=entries[0].data.plan.budget_unit,
        verdicts={entry.name: entry.findings.saturation.verdict for entry in entries},
        frontiers=_frontiers(entries),
        cells=_cells(entries, config.confidence),
    )


def _frontiers(entries: Sequence[Entry]) -> tuple[AtBudget, ...]:
    """Every entry at every budget it has reached, the first entry's draws set against its own."""
    first = entries[0].findings
    rows = []
    for entry in entries:
        optima = {each.budget: each for each in entry.findings.saturation.optima}
        for k, at in enumerate(entry.findings.frontier.budgets):
            best, optimum = at.best, optima.get(at.budget)
            rows.append(
                AtBudget(
                    entry=entry.name,
                    budget=at.budget,
                    best_n=best.num_generations,
                    best_batch=best.cell.problems_per_batch,
                    reward=best.cell.mean if best.expected is None else best.expected,
                    interval=best.interval,
                    better=None
                    if entry is entries[0]
                    else _better(entry.findings, k, first, at.budget),
                    n_star=optimum.of("best") if optimum else None,
                    n_d=optimum.of("enough") if optimum else None,
                )
            )
    return tuple(rows)


def _better(mine: Findings, k: int, first: Findings, budget: float) -> float | None:
    """Probability that the best reward at `budget` is above the first entry's."""
    places = [i for i, at in enumerate(first.frontier.budgets) if math.isclose(at.budget, budget)]
    if not places or mine.surface is None or first.surface is None:
        return None
    ours = mine.surface.by_n[:, k].max(axis=1)
    theirs = first.surface.by_n[:, places[0]].max(axis=1)
    # The two sets of draws are independent, but made with one seed: one is turned.
    return float((ours > np.roll(theirs, len(theirs) // 2)).mean())


def _cells(entries: Sequence[Entry], confidence: float) -> tuple[LawOfCell, ...]:
    """Every (n, B) that all entries have, and whose curves identify A in all of them."""
    fitted = [_identified(entry) for entry in entries]
    shared = sorted(set.intersection(*(set(of) for of in fitted)))
    return tuple(
        _law(entry.name, pair, of[pair], confidence)
        for pair in shared
        for entry, of in zip(entries, fitted, strict=True)
    )


def _identified(entry: Entry) -> dict[Pair, list[FloatArray]]:
    """A, ln C_mid and ln b of every seed by (n, B), where those of all seeds are identified."""
    fitted = zip(entry.data.curves, entry.findings.fits, strict=True)
    found: dict[Pair, list[FloatArray]] = {}
    for pair, group in by_pair(fitted, lambda item: item[0].run).items():
        fits = [(fit.asymptote, fit.midpoint, fit.exponent) for _, fit in group]
        known = [(a.value, m.value, b.value) for a, m, b in fits if a and m and b]
        if len(known) == len(fits):
            found[pair] = [np.array([a, math.log(m), math.log(b)]) for a, m, b in known]
    return found


def _law(name: str, pair: Pair, seeds: Sequence[FloatArray], confidence: float) -> LawOfCell:
    asymptote, midpoint, exponent = np.stack(seeds, axis=1)
    return LawOfCell(
        entry=name,
        **pair._asdict(),
        num_seeds=len(seeds),
        asymptote=_over_seeds(asymptote, confidence, SEED_ERROR),
        exponent=_in_logs(exponent, confidence),
        midpoint=float(np.exp(midpoint.mean())),
    )


def _over_seeds(values: FloatArray, confidence: float, alone: float) -> Interval:
    """Mean and Student interval; `alone` to either side with one seed."""
    if len(values) > 1:
        return Interval.student(values, confidence)
    return Interval.around(float(values[0]), alone)


def _in_logs(logs: FloatArray, confidence: float) -> Interval:
    """As `_over_seeds` for a quantity fitted as its logarithm; with one seed no interval."""
    of_logs = _over_seeds(logs, confidence, 0.0)
    median, low, high = map(math.exp, (of_logs.median, of_logs.low, of_logs.high))
    return Interval(median=median, low=low, high=high)
