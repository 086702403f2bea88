"""Everything that is computed from a sweep's records, before anything is drawn or written."""

from dataclasses import dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.best_batch import BatchLaw, batch_laws
from isosweep.analysis.statistics.best_n import Frontier
from isosweep.analysis.statistics.collapses import Survival, survivals
from isosweep.analysis.statistics.learning_curve import Fit, fit_curves
from isosweep.analysis.statistics.new_problems import NewProblems, judge_new_problems
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.statistics.verdict import Saturation, judge
from isosweep.config.analysis import AnalysisConfig


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`surface`: None without a spread between seeds; `fits`: one a run; `survivals`: one an
    n, () where no run fell; `batch_laws`: one an n x B, () where it is not fixed; `new_problems`:
    None unless asked for."""

    surface: Surface | None
    frontier: Frontier
    saturation: Saturation
    fits: tuple[Fit, ...]
    survivals: tuple[Survival, ...]
    batch_laws: tuple[BatchLaw, ...]
    new_problems: NewProblems | None = None


def find(data: SweepData, config: AnalysisConfig, *, new_problems: bool = False) -> Findings:
    """Analyse the sweep as far as its runs have come; with `new_problems`, for those as well."""
    surface, frontier, saturation = judge(data, config)
    return Findings(
        surface=surface,
        frontier=frontier,
        saturation=saturation,
        fits=fit_curves(data.curves),
        survivals=survivals(data.readings, config.confidence),
        batch_laws=batch_laws(data, config, surface, frontier),
        new_problems=judge_new_problems(data, config) if new_problems else None,
    )
