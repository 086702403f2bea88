"""Figures of several sweeps beside each other."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from isosweep.analysis.figures.best_n import NAMED
from isosweep.analysis.figures.style import (
    BLUE,
    GREEN,
    RED,
    Figure,
    bars,
    compute_axis,
    doublings_axis,
    finish,
    marks,
    panels,
    reward_label,
    sequential,
    style,
)
from isosweep.analysis.statistics.compare import Comparison, Entry
from isosweep.config.analysis import Quantity

# Of the figure of each n: its name, its title and how its caption begins.
_N: dict[Quantity, tuple[str, str, str]] = {
    "best": (
        "comparison_best_n",
        "Best n",
        "n*, the best n, against compute: median and interval (with one seed the best mean)",
    ),
    "enough": (
        "comparison_enough_n",
        "Smallest n that is good enough",
        "n_d, the smallest n that loses at most analysis.margin of reward, against compute: median "
        "and interval",
    ),
}


def comparison_figures(comparison: Comparison, entries: Sequence[Entry]) -> dict[str, Figure]:
    """By name, in the page's order. No n* where there is one n."""
    with style():
        figures = {"comparison_reward": _reward_figure(comparison, entries)}
        for quantity, (name, *_) in _N.items():
            if not comparison.one_pair:
                figures[name] = _n_figure(comparison, entries, quantity)
    return figures


def _looks(entries: Sequence[Entry]) -> Iterator[tuple[Entry, str, float]]:
    """The colour of each entry, and the factor on its compute that keeps intervals apart."""
    named = (BLUE, RED, GREEN)
    colors = named if len(entries) <= len(named) else sequential(len(entries))
    for i, entry in enumerate(entries):
        yield entry, colors[i], 1.03 ** (i - (len(entries) - 1) / 2)


def _axes(comparison: Comparison) -> Axes:
    (axes,) = panels()
    budgets = [at.budget for at in comparison.frontiers] or [1.0]
    compute_axis(axes, comparison.unit, min(budgets), max(budgets), 1.4)
    return axes


def _reward_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""
    axes = _axes(comparison)
    axes.set_ylabel(reward_label(entries[0].data))
    for entry, color, shift in _looks(entries):
        mine = [
            (at, at.budget * shift, f"{entry.name}\nn={at.best_n}, B={at.best_batch}")
            for at in comparison.frontiers
            if at.entry == entry.name
        ]
        bars(axes, [(x, *at.interval, tip) for at, x, tip in mine if at.interval], color)
        axes.plot([x for _, x, _ in mine], [at.reward for at, *_ in mine], color=color, lw=1.6)
        marks(axes, [(x, at.reward, tip) for at, x, tip in mine], color, label=entry.name)
    return finish(
        axes,
        f"Best reward of every {comparison.kind}",
        "Expected reward of the best (n, B) at each budget, with its interval where several seeds "
        f"were run. {comparison.kind.capitalize()}s are shifted sideways a little.",
    )


def _n_figure(comparison: Comparison, entries: Sequence[Entry], quantity: Quantity) -> Figure:
    """n*(C) or n_d(C) of every sweep. No line: where an interval spans the grid, its median leads
    nowhere."""
    axes, (_, title, caption) = _axes(comparison), _N[quantity]
    measured = [n for e in entries for at in e.findings.frontier.budgets for n in at.measured]
    doublings_axis(axes, "y", "rollouts per problem, n", measured or [2])
    for entry, color, shift in _looks(entries):
        found = [
            (at.budget * shift, at.judged(quantity), at.best)
            for at in entry.findings.frontier.optima
        ]
        tip = f"{entry.name}\n{NAMED[quantity].symbol} {{}}"
        ends = [(x, n.low, n.high, tip.format(n)) for x, n, _ in found if n]
        bars(axes, ends, color)
        points = [(x, n.median, tip.format(n)) for x, n, _ in found if n]
        if quantity == "best":
            points += [(x, best, tip.format(best)) for x, n, best in found if not n]
        marks(axes, points, color, label=entry.name)
    return finish(
        axes,
        f"{title} of every {comparison.kind}",
        f"{caption}, by each {comparison.kind}'s own reward surface.",
    )
