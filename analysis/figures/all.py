"""Which figures the report has, in its order: a new one is one entry of `REPORT_FIGURES`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.best_n import best_batch_figure, best_n_figure, growth_figure
from isosweep.analysis.figures.curves import curves_figure
from isosweep.analysis.figures.health import health_figure
from isosweep.analysis.figures.reward import reward_figure, sharpening_figure
from isosweep.analysis.figures.search import decisions_figure
from isosweep.analysis.figures.slices import heat_map_figure, slices_figure
from isosweep.analysis.figures.style import Figure, LeftOut, style
from isosweep.analysis.statistics.findings import Findings

# Sections of the report's page that have figures, in the page's order.
Section = Literal["Answer", "Best n", "Reward", "Curves", "Search", "Training"]
# By the name of its files: the section that shows a figure, and what draws it.
REPORT_FIGURES: dict[str, tuple[Section, Callable[[SweepData, Findings], Figure | LeftOut]]] = {
    "best_n": ("Answer", best_n_figure),
    "growth": ("Best n", growth_figure),
    "slices": ("Best n", slices_figure),
    "heat_map": ("Best n", heat_map_figure),
    "best_batch": ("Best n", best_batch_figure),
    "reward": ("Reward", reward_figure),
    "sharpening": ("Reward", sharpening_figure),
    "curves": ("Curves", curves_figure),
    "decisions": ("Search", decisions_figure),
    "health": ("Training", health_figure),
}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """By name: the figures that have something to show, and why the others would be empty."""

    drawn: dict[str, Figure]
    left_out: dict[str, str]

    def in_section(self, section: Section) -> dict[str, Figure]:
        """Those that are drawn in one section of the page."""
        return {name: f for name, f in self.drawn.items() if REPORT_FIGURES[name][0] == section}


def draw_figure(name: str, data: SweepData, findings: Findings) -> Figure | LeftOut:
    """One figure of the report, or why it has nothing to show."""
    with style():
        return REPORT_FIGURES[name][1](data, findings)


def draw_figures(data: SweepData, findings: Findings) -> Figures:
    """All figures of the report, in its order."""
    found = {name: draw_figure(name, data, findings) for name in REPORT_FIGURES}
    return Figures(
        drawn={name: each for name, each in found.items() if isinstance(each, Figure)},
        left_out={n: each.reason for n, each in found.items() if isinstance(each, LeftOut)},
    )
