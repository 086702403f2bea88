"""Everything that is computed from a sweep's records, before anything is drawn or written."""

from dataclasses import dataclass

from isosweep.analysis.fits import Fit, fit_curves
from isosweep.analysis.frontier import Frontier, fit_frontier
from isosweep.analysis.load import SweepData
from isosweep.analysis.mechanism import ProblemChange, problem_changes
from isosweep.analysis.saturation import Saturation, find_saturation
from isosweep.analysis.validation import Validation, leave_last_budget_out
from isosweep.settings import AnalysisConfig


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`fits`: one a run; `changes`: one an n; `validation`: None with one budget."""

    frontier: Frontier
    saturation: Saturation
    fits: tuple[Fit, ...]
    changes: tuple[ProblemChange, ...]
    validation: Validation | None


def find(data: SweepData, config: AnalysisConfig) -> Findings:
    """Analyse the sweep as far as its runs have come."""
    frontier = fit_frontier(data.readings, config.confidence)
    return Findings(
        frontier=frontier,
        saturation=find_saturation(frontier, config.margin),
        fits=fit_curves(data.curves),
        changes=problem_changes(data, frontier),
        validation=leave_last_budget_out(data, config.confidence),
    )
