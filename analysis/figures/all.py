"""Which figures the report has, in its order.

A new figure is one entry of `FIGURES` in the module of its topic, beside the function that
describes it: files, page and tracking go by this list.
"""

from dataclasses import dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures import (
    batch,
    best_n,
    curves,
    health,
    reward,
    search,
    sharpening,
    slices,
)
from isosweep.analysis.figures.canvas import Figure, LeftOut, ReportFigure, Section
from isosweep.analysis.statistics.findings import Findings

REPORT_FIGURES: tuple[ReportFigure, ...] = tuple(
    figure
    for topic in (best_n, slices, batch, reward, sharpening, curves, search, health)
    for figure in topic.FIGURES
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """By name: the figures that have something to show, and why the others would be empty."""

    drawn: dict[str, Figure]
    left_out: dict[str, str]

    def of(self, section: Section) -> dict[str, Figure]:
        """Those that are drawn in one section of the page."""
        names = [figure.name for figure in REPORT_FIGURES if figure.section == section]
        return {name: self.drawn[name] for name in names if name in self.drawn}


def describe_figures(data: SweepData, findings: Findings) -> Figures:
    """All figures of the report, in its order."""
    drawn: dict[str, Figure] = {}
    left_out: dict[str, str] = {}
    for figure in REPORT_FIGURES:
        match figure.describe(data, findings):
            case Figure() as described:
                drawn[figure.name] = described
            case LeftOut(reason=reason):
                left_out[figure.name] = reason
    return Figures(drawn=drawn, left_out=left_out)
