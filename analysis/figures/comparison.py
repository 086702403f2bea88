"""Figures of several sweeps beside each other."""

from collections.abc import Sequence

from isosweep.analysis.figures.axes import (
    along_compute,
    generations_axis,
    rewarded,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, sequential
from isosweep.analysis.figures.description import (
    DOTS,
    Axis,
    Figure,
    Series,
    series_of,
)
from isosweep.analysis.statistics.compare import Comparison
from isosweep.analysis.statistics.entries import Entry
from isosweep.config.analysis import Quantity
from isosweep.words.numbers import UNITS


def comparison_figures(comparison: Comparison, entries: Sequence[Entry]) -> dict[str, Figure]:
    """By name, in the page's order. No n* where there is one n."""
    figures = {"comparison_reward": _reward_figure(comparison, entries)}
    if not comparison.one_pair:
        figures["comparison_best_n"] = _n_figure(comparison, entries, "best")
        figures["comparison_enough_n"] = _n_figure(comparison, entries, "enough")
    return figures


def _colors(entries: Sequence[Entry]) -> Sequence[str]:
    named = (BLUE, RED, GREEN)
    return named if len(entries) <= len(named) else sequential(len(entries))


def _budget_axis(comparison: Comparison) -> Axis:
    budgets = sorted({at.budget for at in comparison.frontiers})
    if not budgets:
        return Axis(title=f"training compute per run ({UNITS[comparison.unit]})", log=True)
    return along_compute(comparison.unit, (budgets[0] / 1.4, budgets[-1] * 1.4))


def _reward_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""

    def course(i: int, name: str, color: str) -> Series:
        # Sweeps lie side by side, so that their intervals do not hide each other.
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        return series_of(
            (at for at in comparison.frontiers if at.entry == name),
            lambda at: at.budget * shift,
            lambda at: at.reward,
            ends=lambda at: at.interval,
            text=lambda at: f"{name}\nn={at.best_n}, B={at.best_batch}",
            label=name,
            color=color,
            width=1.6,
            marker="circle",
        )

    named = zip(entries, _colors(entries), strict=False)
    return Figure(
        title=f"Best reward of every {comparison.kind}",
        caption="Expected reward of the best (n, B) at each budget, with its interval where "
        f"several seeds were run. {comparison.kind.capitalize()}s are shifted sideways a little.",
        x=_budget_axis(comparison),
        y=Axis(title=rewarded(entries[0].data)),
        series=tuple(course(i, entry.name, color) for i, (entry, color) in enumerate(named)),
    )


# Of the figure of each n: its title and how its caption begins.
_N: dict[Quantity, tuple[str, str]] = {
    "best": (
        "Best n",
        "n*, the best n, against compute: median and interval (with one seed the best mean)",
    ),
    "enough": (
        "Smallest n that is good enough",
        "n_d, the smallest n that loses at most analysis.margin of reward, against compute: median "
        "and interval",
    ),
}


def _n_figure(comparison: Comparison, entries: Sequence[Entry], quantity: Quantity) -> Figure:
    """n*(C) or n_d(C) of every sweep."""
    title, caption = _N[quantity]
    symbol = "n*" if quantity == "best" else "n_d"

    def course(i: int, entry: Entry, color: str) -> Series:
        shift = 1.03 ** (i - (len(entries) - 1) / 2)
        found = [(at, at.of(quantity)) for at in entry.findings.saturation.optima]
        if quantity == "enough":
            found = [(at, known) for at, known in found if known is not None]
        return series_of(
            found,
            lambda row: row[0].budget * shift,
            lambda row: row[0].best if row[1] is None else row[1].interval.median,
            ends=lambda row: row[1].interval if row[1] else None,
            text=lambda row: f"{entry.name}\n{symbol} {(row[1] or row[0]).words}",
            label=entry.name,
            color=color,
            width=1.6,
            # No line: where an interval spans the grid, its median leads nowhere.
            **DOTS,
        )

    named = zip(entries, _colors(entries), strict=False)
    values = [n for e in entries for at in e.findings.frontier.budgets for n in at.measured]
    return Figure(
        title=f"{title} of every {comparison.kind}",
        caption=f"{caption}, by each {comparison.kind}'s own reward surface.",
        x=_budget_axis(comparison),
        y=generations_axis(values or [2]),
        series=tuple(course(i, entry, color) for i, (entry, color) in enumerate(named)),
    )
