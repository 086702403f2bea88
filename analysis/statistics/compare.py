"""Several sweeps, or variants of one, side by side: recipes, models, data sizes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Positive, Share
from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import AXIS_GROUPS, stored_settings
from isosweep.plan.cells import variant_label
from isosweep.words.numbers import setting

Kind = Literal["sweep", "variant"]
COMPARISON_VERSION: Final = 7
# More would be no label.
_MOST_SETTINGS = 3
# Settings of tasks and evaluations that leave the held-out problems and their scores as they are.
_NOT_SCORED = re.compile(
    r"task\.(mixture\.(parts\.[^.]+\.)?)?(name|prompt_tokens|completion_tokens)"
    r"|task\.mixture\.shares(\..*)?"
    r"|task\.(.+\.)?((math|code)\.path|custom\.directory)"
    r"|evaluation\.records_per_decade"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One sweep, or one variant of its `grid.axes`, with what its records show.

    `settings`: all of its config, by dotted name.
    """

    name: str
    data: SweepData
    findings: Findings
    settings: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_variant(
        cls, axes: dict[str, Any], data: SweepData, findings: Findings, *, sweep: str = ""
    ) -> "Entry":
        """The entry of one variant of a sweep, or of all there is of it (`axes` empty).

        `sweep`: its name, where others are beside it.
        """
        return cls(
            name=" ".join(filter(None, (sweep, variant_label(axes)))),
            data=data,
            findings=findings,
            settings=stored_settings(data.config_document, axes),
        )


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
    n_star: Interval | None
    """n*, the best n, planned or not; null without a spread between seeds."""
    n_d: Interval | None
    """The smallest n that is good enough; null likewise."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What an isosweep comparison.json holds: what sets the entries apart. n: rollouts per problem;
    B: problems per batch. Rewards are held-out, from 0 to 1. Null: not known or not identified."""

    version: Literal[7] = COMPARISON_VERSION
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
    rows = []
    for entry in entries:
        for k, at in enumerate(entry.findings.frontier.budgets):
            best = at.best
            row = AtBudget(
                entry=entry.name,
                budget=at.budget,
                best_n=best.num_generations,
                best_batch=best.cell.problems_per_batch,
                reward=best.cell.mean if best.expected is None else best.expected,
                interval=best.interval,
                better=None
                if entry is entries[0]
                else _probability_better(entry.findings, k, entries[0].findings),
                n_star=at.optimum.n_star,
                n_d=at.optimum.n_d,
            )
            rows.append(row)
    return Comparison(
        kind=kind,
        one_pair=len({Pair.of(run) for entry in entries for run in entry.data.plan.runs}) == 1,
        scored_otherwise=tuple(scored_otherwise(entries, config.evaluation_set)),
        unit=entries[0].data.plan.budget_unit,
        verdicts={entry.name: entry.findings.saturation.verdict for entry in entries},
        frontiers=tuple(rows),
    )


def _probability_better(findings: Findings, k: int, first: Findings) -> float | None:
    """Probability that the best reward at the budget at `k` is above the first entry's there."""
    budget = findings.frontier.budgets[k].budget
    places = [i for i, at in enumerate(first.frontier.budgets) if math.isclose(at.budget, budget)]
    if not places or findings.surface is None or first.surface is None:
        return None
    ours = findings.surface.by_n[:, k].max(axis=1)
    theirs = first.surface.by_n[:, places[0]].max(axis=1)
    # The two sets of draws are independent, but made with one seed: one is turned.
    return float((ours > np.roll(theirs, len(theirs) // 2)).mean())


def sweep_labels(names: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the sweeps of these config documents apart: their settings that differ, or where
    these are none, too many to read, or the same for two, their names."""
    sweeps = [stored_settings(document, {}) for document in documents]
    every = [name for settings in sweeps for name in settings if _is_of_the_question(name)]
    differ = _differing(every, sweeps)
    # The choice of a group stands for what it sets.
    chosen = {name.partition(".")[0] for name in differ if name.endswith(".name")}
    shown = [n for n in differ if n.endswith(".name") or n.partition(".")[0] not in chosen]
    labels = [
        " ".join(
            value if name.endswith(".name") else f"{name.rpartition('.')[2]}={value}"
            for name, value in ((name, setting(settings.get(name))) for name in shown)
        )
        for settings in sweeps
    ]
    distinct = len(set(labels)) == len(labels) and len(shown) <= _MOST_SETTINGS
    return labels if distinct else list(names)


def _differing(names: Sequence[str], settings: Sequence[Mapping[str, object]]) -> list[str]:
    """The names, each once, whose values are not the same in all settings."""
    return [n for n in dict.fromkeys(names) if len({repr(each.get(n)) for each in settings}) > 1]


def _is_of_the_question(name: str) -> bool:
    """Whether a setting is one of what a sweep asks, and not of where and how it runs."""
    group = name.partition(".")[0]
    return group in (*AXIS_GROUPS, "grid", "budget", "budget_unit") and not name.startswith(
        "grid.axes"
    )


def scored_otherwise(entries: Sequence[Entry], evaluation_set: str | None = None) -> list[str]:
    """The settings in which the entries differ that say which problems a reward is of, and how they
    are scored: those of the task and its evaluation, or of one `evaluation_set` besides."""
    own = f"evaluation.sets.{evaluation_set}."
    names = [
        name
        for entry in entries
        for name in entry.settings
        if name.startswith(own)
        or (name.startswith(("task.", "evaluation.")) and not name.startswith("evaluation.sets"))
    ]
    differ = _differing(names, [entry.settings for entry in entries])
    found = [name for name in differ if not _NOT_SCORED.fullmatch(name)]
    # Held-out problems are drawn first (docs/tasks.md), but those of `sort` follow the others.
    kinds = {v for each in entries for n, v in each.settings.items() if n.endswith(".kind")}
    return [n for n in found if "sort" in kinds or not n.endswith("num_train_problems")]
