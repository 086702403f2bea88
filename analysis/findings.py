"""Everything that is computed from a sweep's records, before anything is drawn or written."""

from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from isosweep.analysis.asymptotes import Asymptote, asymptotes
from isosweep.analysis.fits import Fit, fit_curves
from isosweep.analysis.frontier import Frontier, fit_frontier
from isosweep.analysis.load import SweepData
from isosweep.analysis.mechanism import ProblemChange, problem_changes
from isosweep.analysis.playbook import fit_playbook, playbook_saturation
from isosweep.analysis.saturation import Saturation, find_saturation
from isosweep.analysis.surface import Surface, fit_surface, gather_means
from isosweep.analysis.validation import Validation, leave_last_budget_out
from isosweep.settings import AnalysisConfig


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`surface`: None without a spread between seeds; `fits`: one a run; `changes`: one an n;
    `validation`: None with one budget."""

    surface: Surface | None
    frontier: Frontier
    saturation: Saturation
    fits: tuple[Fit, ...]
    asymptotes: tuple[Asymptote, ...]
    changes: tuple[ProblemChange, ...]
    validation: Validation | None


def find(data: SweepData, config: AnalysisConfig) -> Findings:
    """Analyse the sweep as far as its runs have come."""
    surface, frontier, saturation = judge(data, config)
    fits = fit_curves([curve.until_collapse() for curve in data.curves])
    return Findings(
        surface=surface,
        frontier=frontier,
        saturation=saturation,
        fits=fits,
        asymptotes=asymptotes(data.plan.runs, fits, config.confidence),
        changes=problem_changes(data, frontier),
        validation=leave_last_budget_out(data, config.confidence),
    )


def judge(data: SweepData, config: AnalysisConfig) -> tuple[Surface | None, Frontier, Saturation]:
    """The reward surface, the frontier, and the verdict by `config.method`."""
    means = gather_means(data.readings)
    # Hundreds of small factorisations: on a busy machine threads cost 50 times what they save.
    with threadpool_limits(limits=1, user_api="blas"):
        surface = None if means is None else fit_surface(means)
    frontier = fit_frontier(data.readings, means, surface, config.confidence)
    if config.method == "playbook":
        playbook = fit_playbook(data.curves, [at.budget for at in frontier.budgets])
        return surface, frontier, playbook_saturation(playbook, frontier)
    return surface, frontier, find_saturation(frontier, surface, config.margin)
