"""Figures of several sweeps beside each other."""

from collections.abc import Sequence

from isosweep.analysis.figures.canvas import Canvas, Figure, rewarded
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, sequential
from isosweep.analysis.statistics.compare import Comparison, Entry
from isosweep.config.analysis import Quantity


def comparison_figures(comparison: Comparison, entries: Sequence[Entry]) -> dict[str, Figure]:
    """By name, in the page's order. No n* where there is one n."""
    figures = {"comparison_reward": _reward_figure(comparison, entries)}
    if not comparison.one_pair:
        figures["comparison_best_n"] = _n_figure(comparison, entries, "best")
        figures["comparison_enough_n"] = _n_figure(comparison, entries, "enough")
    return figures


def _looks(entries: Sequence[Entry]) -> list[tuple[Entry, str, float]]:
    """The colour of each entry, and the factor on its compute that keeps intervals apart."""
    named = (BLUE, RED, GREEN)
    colors = named if len(entries) <= len(named) else sequential(len(entries))
    middle = (len(entries) - 1) / 2
    return [(entry, colors[i], 1.03 ** (i - middle)) for i, entry in enumerate(entries)]


def _draw_budgets(canvas: Canvas, comparison: Comparison) -> None:
    budgets = [at.budget for at in comparison.frontiers] or [1.0]
    canvas.compute(comparison.unit, min(budgets) / 1.4, max(budgets) * 1.4)


def _reward_figure(comparison: Comparison, entries: Sequence[Entry]) -> Figure:
    """Best expected reward of every sweep against compute."""

    def draw(canvas: Canvas) -> None:
        _draw_budgets(canvas, comparison)
        canvas.axes.set_ylabel(rewarded(entries[0].data))
        for entry, color, shift in _looks(entries):
            mine = [at for at in comparison.frontiers if at.entry == entry.name]
            points = [
                (at.budget * shift, at.reward, f"{entry.name}\nn={at.best_n}, B={at.best_batch}")
                for at in mine
            ]
            for at, (x, _, tip) in zip(mine, points, strict=True):
                if at.interval is not None:
                    canvas.bar(x, at.interval, color, tip=tip)
            canvas.line([x for x, _, _ in points], [y for _, y, _ in points], color)
            canvas.marks(points, color, label=entry.name)

    return Figure(
        title=f"Best reward of every {comparison.kind}",
        caption="Expected reward of the best (n, B) at each budget, with its interval where "
        f"several seeds were run. {comparison.kind.capitalize()}s are shifted sideways a little.",
        draw=(draw,),
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
    """n*(C) or n_d(C) of every sweep. No line: where an interval spans the grid, its median leads
    nowhere."""
    title, caption = _N[quantity]
    symbol = "n*" if quantity == "best" else "n_d"

    def draw(canvas: Canvas) -> None:
        _draw_budgets(canvas, comparison)
        measured = [n for e in entries for at in e.findings.frontier.budgets for n in at.measured]
        canvas.generations("y", measured or [2])
        for entry, color, shift in _looks(entries):
            points = []
            for at in entry.findings.frontier.optima:
                x, found = at.budget * shift, at.judged(quantity)
                if found is not None:
                    tip = f"{entry.name}\n{symbol} {found}"
                    canvas.bar(x, (found.low, found.high), color, tip=tip)
                    points.append((x, found.median, tip))
                elif quantity == "best":
                    points.append((x, float(at.best), f"{entry.name}\n{symbol} {at}"))
            canvas.marks(points, color, label=entry.name)

    return Figure(
        title=f"{title} of every {comparison.kind}",
        caption=f"{caption}, by each {comparison.kind}'s own reward surface.",
        draw=(draw,),
    )
