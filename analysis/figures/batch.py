"""Figures of what B does: at fixed n, against n at equal n x B, and the best B against compute."""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    doubling_axis,
    evenly_chosen,
    generation_colors,
    generations_axis,
    reward_axis,
    some_of,
)
from isosweep.analysis.figures.colors import sequential
from isosweep.analysis.figures.description import (
    DOTS,
    NO_BUDGET,
    Figure,
    LeftOut,
    Look,
    ReportFigure,
    Series,
    series_of,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.best_batch import BatchLaw
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean
from isosweep.analysis.statistics.intervals import central_ends

# More lines than can be distinguished.
_MOST_LINES = 6
# A trade-off of two cells is a difference, not a course.
_FEWEST_CELLS = 3

# Expected reward of a cell with its interval; the mean, and no interval, without a surface.
_Expected = tuple[float, tuple[float, float] | None]


def _expected(findings: Findings, cells: Sequence[CellMean]) -> dict[Pair, _Expected]:
    """By (n, B), at the largest budget."""
    surface, confidence = findings.surface, findings.frontier.confidence
    if surface is None:
        return {Pair.of(cell): (cell.mean, None) for cell in cells}
    rewards = surface.at_cells(surface.draws[:, -1], cells)
    return {
        Pair.of(cell): (float(draws.mean()), central_ends(draws, confidence))
        for cell, draws in zip(cells, rewards.T, strict=True)
    }


def _courses(
    findings: Findings,
    groups: Iterable[tuple[str, str, Sequence[CellMean]]],
    over: Callable[[CellMean], int],
) -> tuple[Series, ...]:
    """Of each group, a label, a colour and cells at the largest budget: expected reward over some
    axis, with the measured means as dots."""
    expected = _expected(findings, findings.frontier.budgets[-1].cells)

    def text(cell: CellMean) -> str:
        value, ends = expected[Pair.of(cell)]
        words = f"n={cell.num_generations}, B={cell.problems_per_batch}, T={cell.num_steps}\n"
        if ends is not None:
            words += f"expected {value:.4f} ({ends[0]:.4f} to {ends[1]:.4f})\n"
        return words + f"measured {cell.mean:.4f}, {cell.num_seeds} seeds"

    def of(cell: CellMean) -> _Expected:
        return expected[Pair.of(cell)]

    series: list[Series] = []
    for label, color, cells in groups:
        look: Look = {"label": label, "color": color, "width": 1.6}
        series.append(series_of(cells, over, lambda c: of(c)[0], ends=lambda c: of(c)[1], **look))
        series.append(series_of(cells, over, lambda c: c.mean, text=text, color=color, **DOTS))
    return tuple(series)


def _what_is_drawn(findings: Findings) -> str:
    if findings.surface is None:
        return "Measured means: without a spread between seeds there is no reward surface."
    return (
        f"Lines: expected reward by the reward surface, with {findings.frontier.confidence:.0%} "
        "intervals; dots: measured means over seeds."
    )


def _grouped(findings: Findings, key: Callable[[CellMean], int]) -> dict[int, list[CellMean]]:
    """Cells at the largest budget, by a key, ascending."""
    groups: dict[int, list[CellMean]] = {}
    for cell in findings.frontier.budgets[-1].cells:
        groups.setdefault(key(cell), []).append(cell)
    return dict(sorted(groups.items()))


def batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against B at the largest budget, a line for each of up to six n."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    at = findings.frontier.budgets[-1]
    rows = _grouped(findings, attrgetter("num_generations"))
    several = [n for n, cells in rows.items() if len(cells) > 1]
    if not several:
        return LeftOut(reason="no n was measured with two values of B at the largest budget")
    chosen, colors = _with_best(several, at), generation_colors(data.generations)
    over = attrgetter("problems_per_batch")
    return Figure(
        title=f"Effect of B at {amount(data, at.budget)}",
        caption=_what_is_drawn(findings) + some_of(chosen, several, "n"),
        x=doubling_axis("problems per batch, B", (over(c) for n in chosen for c in rows[n])),
        y=reward_axis(data),
        series=_courses(findings, ((f"n = {n}", colors[n], rows[n]) for n in chosen), over),
    )


def _with_best(several: Sequence[int], at: BudgetFrontier) -> tuple[int, ...]:
    """Up to six n, evenly chosen, the best among them if it can be."""
    chosen = list(evenly_chosen(several, _MOST_LINES))
    best = at.best.num_generations
    if best in several and best not in chosen:
        # The ends stay: they show the whole range.
        inner = range(1, len(chosen) - 1)
        chosen[min(inner, key=lambda i: abs(math.log2(chosen[i] / best)))] = best
    return tuple(sorted(chosen))


def tradeoff_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against n along n x B = constant, at the largest budget."""
    products = (
        _grouped(findings, lambda c: c.num_generations * c.problems_per_batch)
        if findings.frontier.budgets
        else {}
    )
    long = [product for product, cells in products.items() if len(cells) >= _FEWEST_CELLS]
    if not long:
        return LeftOut(reason=f"no product n x B has {_FEWEST_CELLS} cells at the largest budget")
    chosen, over = evenly_chosen(long, _MOST_LINES), attrgetter("num_generations")
    colored = zip(chosen, sequential(len(chosen)), strict=True)
    return Figure(
        title=f"n against B at equal n x B, {amount(data, findings.frontier.budgets[-1].budget)}",
        caption="Along a line every step trains on as many completions, spread over fewer problems "
        f"from left to right. {_what_is_drawn(findings)}{some_of(chosen, long, 'products')}",
        x=generations_axis(over(c) for p in chosen for c in products[p]),
        y=reward_axis(data),
        series=_courses(findings, ((f"n x B = {p}", c, products[p]) for p, c in colored), over),
    )


def best_batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """B* against compute, for every n x B of a sweep that fixes it."""
    laws = findings.batch_laws
    if not laws:
        return LeftOut(reason="it takes three n or more at every n x B")
    if not any(law.optima for law in laws):
        return NO_BUDGET
    series = []
    for i, (law, color) in enumerate(zip(laws, sequential(len(laws)), strict=True)):
        # Products lie side by side, so that their intervals do not hide each other.
        series += _best_batches(data, law, color, 1.04 ** (i - (len(laws) - 1) / 2))
    what = (
        "Dots: the B with the best measured mean."
        if findings.surface is None
        else "Dots and bars: B*(C) = (n x B) / n*(C), median and "
        f"{findings.frontier.confidence:.0%} interval; a triangle at an end says that B* may lie "
        "beyond the grid."
    )
    return Figure(
        title="Best B against compute at equal n x B",
        caption=what + ("" if len(laws) == 1 else " Shifted sideways a little."),
        x=budget_axis(data),
        y=doubling_axis("problems per batch, B", data.batches),
        series=tuple(series),
    )


def _best_batches(data: SweepData, law: BatchLaw, color: str, shift: float) -> list[Series]:
    """The best B of one n x B, and triangles at the open ends of its intervals."""
    name = f"n x B = {law.completions_per_step}"
    dots = series_of(
        law.optima,
        lambda at: at.budget * shift,
        lambda at: at.best if at.interval is None else at.interval.median,
        ends=lambda at: at.interval,
        text=lambda at: f"{name} at {amount(data, at.budget)}\nB* {at.words}",
        label=name,
        color=color,
        width=1.6,
        **DOTS,
    )
    known = [(at, at.budget * shift, at.interval) for at in law.optima if at.interval is not None]
    open_ends = {
        "triangle-down-open": [(x, found.low) for at, x, found in known if at.left_censored],
        "triangle-up-open": [(x, found.high) for at, x, found in known if at.right_censored],
    }
    look: Look = {"color": color, "dash": None, "size": 9}
    return [dots] + [
        series_of(points, lambda p: p[0], lambda p: p[1], marker=marker, **look)
        for marker, points in open_ends.items()
        if points
    ]


FIGURES = (
    ReportFigure(name="batch", section="Best n", describe=batch_figure),
    ReportFigure(name="tradeoff", section="Best n", describe=tradeoff_figure),
    ReportFigure(name="best_batch", section="Best n", describe=best_batch_figure),
)
