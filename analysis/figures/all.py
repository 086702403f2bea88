"""Which figures the report has, in its order; the `plots_*` modules describe them."""

from dataclasses import dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.batch import batch_figure, tradeoff_figure
from isosweep.analysis.figures.checks import compute_figure, residuals_figure
from isosweep.analysis.figures.description import Figure, LeftOut
from isosweep.analysis.figures.mechanism import (
    evenness_figure,
    interference_figure,
    mechanism_figure,
)
from isosweep.analysis.figures.optima import best_generations_figure, heat_map_figure
from isosweep.analysis.figures.reward import envelope_figure, reward_figure, slices_figure
from isosweep.analysis.statistics.findings import Findings

_ALL = (
    reward_figure,
    envelope_figure,
    best_generations_figure,
    slices_figure,
    heat_map_figure,
    batch_figure,
    tradeoff_figure,
    mechanism_figure,
    interference_figure,
    evenness_figure,
    residuals_figure,
    compute_figure,
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures that have something to show, and those that would be empty."""

    drawn: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]


def describe_figures(data: SweepData, findings: Findings) -> Figures:
    """All figures of the report, in its order."""
    described = [describe(data, findings) for describe in _ALL]
    return Figures(
        drawn=tuple(figure for figure in described if isinstance(figure, Figure)),
        left_out=tuple(figure for figure in described if isinstance(figure, LeftOut)),
    )
