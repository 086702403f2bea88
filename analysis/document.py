"""`fits.json`: what the analysis made of a sweep, for programs."""

import platform
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Final, Literal

from isosweep import words
from isosweep.analysis.answer import Answer
from isosweep.analysis.bounds import (
    Confidence,
    Count,
    NotNegative,
    Positive,
    Sentence,
    Share,
)
from isosweep.analysis.conclude import collapsed_runs
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.best_batch import BatchLaw
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Fit
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.mechanism import ProblemChange
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.survival import Survival
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.analysis.statistics.views import View
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.files import JsonObject, to_json
from isosweep.metrics import MetricName
from isosweep.version import __version__

# 4: what was concluded is in answer.json; saturation.reason is a kind with its numbers.
FITS_VERSION: Final = 5


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Of isosweep, Python and the packages that computed the document."""

    isosweep: str
    """Version of isosweep."""
    python: str
    """Version of Python."""
    numpy: str
    """Version of numpy."""
    scipy: str
    """Version of scipy."""
    matplotlib: str
    """Version of matplotlib."""

    @classmethod
    def here(cls) -> "Versions":
        """Of what is installed."""
        packages = {name: version(name) for name in ("numpy", "scipy", "matplotlib")}
        return cls(isosweep=__version__, python=platform.python_version(), **packages)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of `analysis.*`, those that change a number: see `AnalysisConfig`."""

    name: str
    """Name of the config group."""
    confidence: Confidence
    """Confidence of all intervals. A share."""
    margin: Positive
    """Reward difference too small to matter. Reward."""
    growth_bound: Positive
    """Growth of the n that is judged below which it has stopped. Doublings per decade."""
    readings_per_decade: Count
    """Smaller budgets, per factor of ten, at which runs were read as well. A count."""
    decades: NotNegative
    """How far below the smallest budget. Factors of ten."""
    metric: MetricName
    """Score of a problem's samples, @k."""
    extrapolate: bool
    """Whether recommendations may go beyond the largest budget."""
    compute_axis: BudgetUnit | None
    """Unit of compute asked for; null is the budgets' own."""
    difficulty: tuple[Share, Share] | None
    """Range of success rates before training of the problems that count; null for all."""
    evaluation_set: str | None
    """Which of evaluation.sets was analysed; null for the main evaluation."""

    @classmethod
    def of(cls, config: AnalysisConfig) -> "Settings":
        """The settings of `config` that change an analysis's numbers."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class FitsDocument:
    """What an isosweep fits.json holds. n: rollouts per problem; B: problems per batch; T: update
    steps; n*: the best n. Rewards are held-out, from 0 to 1. Null: not known or not identified."""

    version: Literal[5] = FITS_VERSION
    """Version of this format. No unit."""
    plan_id: str | None
    """Hash of the plan that was analysed; null where the plan has none."""
    budget_unit: BudgetUnit
    """Unit of every compute in this file: flops, rollouts, tokens or device_hours."""
    verdict: Verdict
    """Of the n that is judged (`saturation.reason.quantity`), as `answer.json` has it."""
    reason: Sentence
    """The verdict's reason in sentences."""
    saturation: Saturation
    """The answer with what it rests on."""
    settings: Settings
    """What the analysis was asked for."""
    versions: Versions
    """Versions of isosweep, Python and the packages that computed this."""
    frontier: Frontier
    """The best n at every budget, and what every n reaches."""
    fits: tuple[Fit, ...]
    """One sigmoid per run: R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B), in the plan's order."""
    problem_changes: tuple[ProblemChange, ...]
    """Problems against the base model at the largest budget: one per n, at its best B."""
    survivals: tuple[Survival, ...]
    """How often runs of each n keep their gain; empty where no run fell."""
    batch_laws: tuple[BatchLaw, ...]
    """The best B against compute: one per n x B, ascending; empty unless each is run with three n
    or more."""
    views: tuple[View, ...]
    """The answer by other metrics and on problems of other difficulty."""
    collapsed: tuple[str, ...]
    """Ids of the runs that lost for good more than half of what they had gained, in the plan's
    order. No unit."""
    problems: tuple[str, ...]
    """Lines and files that could not be used, in words."""


def fits_document(
    data: SweepData,
    config: AnalysisConfig,
    findings: Findings,
    versions: Versions,
    answer: Answer,
) -> JsonObject:
    """What `fits.json` holds, as JSON has it."""
    document = FitsDocument(
        plan_id=data.plan_document.get("plan_id"),
        budget_unit=data.plan.budget_unit,
        verdict=findings.saturation.verdict,
        reason=words.line("verdict", "reason", answer.document()),
        saturation=findings.saturation,
        settings=Settings.of(config),
        versions=versions,
        frontier=findings.frontier,
        fits=findings.fits,
        problem_changes=findings.changes,
        survivals=findings.survivals,
        batch_laws=findings.batch_laws,
        views=findings.views,
        collapsed=collapsed_runs(data),
        problems=data.problems,
    )
    written: JsonObject = to_json(asdict(document))
    return written
