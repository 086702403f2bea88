"""The verdict of one set of readings."""

from threadpoolctl import threadpool_limits

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.frontier import Frontier, fit_frontier
from isosweep.analysis.statistics.means import gather_means
from isosweep.analysis.statistics.problems import on_new_problems
from isosweep.analysis.statistics.saturation import Saturation, find_saturation
from isosweep.analysis.statistics.surface import Surface, fit_surface
from isosweep.analysis.statistics.survival import with_fallen
from isosweep.config.analysis import AnalysisConfig


def judge(
    data: SweepData, config: AnalysisConfig, *, new_problems: bool = False
) -> tuple[Surface | None, Frontier, Saturation]:
    """The reward surface (None without a spread between seeds), the frontier, and the verdict.

    `new_problems`: of rewards on further problems of the same kind, and not on these.
    """
    surface, frontier = fit_budgets(data, config, new_problems=new_problems)
    return surface, frontier, find_saturation(frontier, surface, config)


def fit_budgets(
    data: SweepData, config: AnalysisConfig, *, new_problems: bool = False
) -> tuple[Surface | None, Frontier]:
    """The reward surface and the frontier of `judge`, without a verdict."""
    means = gather_means(data.readings)
    if means is not None and new_problems:
        means = on_new_problems(means, data)
    # Hundreds of small factorisations: on a busy machine threads cost 50 times what they save.
    with threadpool_limits(limits=1, user_api="blas"):
        surface = None if means is None else with_fallen(fit_surface(means), data.readings)
    return surface, fit_frontier(data.readings, means, surface, config.confidence, data.curves)
