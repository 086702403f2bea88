"""Several sweeps beside each other: recipes, models, data sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Positive, Share
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.entries import Entry, scored_otherwise
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.optima import Range
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig

Kind = Literal["sweep", "variant"]
COMPARISON_VERSION: Final = 6


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
class Comparison:
    """What an isosweep comparison.json holds: what sets the entries apart. n: rollouts per problem;
    B: problems per batch. Rewards are held-out, from 0 to 1. Null: not known or not identified."""

    version: Literal[6] = COMPARISON_VERSION
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


def compare(entries: Sequence[Entry], config: AnalysisConfig, kind: Kind = "sweep") -> Comparison:
    """Two entries or more, with budgets in one unit."""
    return Comparison(
        kind=kind,
        one_pair=len({Pair.of(run) for entry in entries for run in entry.data.plan.runs}) == 1,
        scored_otherwise=tuple(scored_otherwise(entries, config.evaluation_set)),
        unit=entries[0].data.plan.budget_unit,
        verdicts={entry.name: entry.findings.saturation.verdict for entry in entries},
        frontiers=_frontiers(entries),
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
