"""Figures of what B does: at fixed n, against n at equal n x B, and the best B against compute."""

import math
from collections.abc import Sequence

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    doubling_axis,
    evenly_chosen,
    generation_colors,
    generations_axis,
    reward_axis,
)
from isosweep.analysis.figures.colors import sequential
from isosweep.analysis.figures.description import Figure, LeftOut, Marker, ReportFigure, Series
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
_Expected = tuple[float, float | None, float | None]


def _expected(findings: Findings, cells: Sequence[CellMean]) -> dict[Pair, _Expected]:
    """By (n, B), at the largest budget."""
    surface, confidence = findings.surface, findings.frontier.confidence
    if surface is None:
        return {Pair.of(cell): (cell.mean, None, None) for cell in cells}
    rewards = surface.at_cells(surface.draws[:, -1], cells)
    return {
        Pair.of(cell): (float(draws.mean()), *central_ends(draws, confidence))
        for cell, draws in zip(cells, rewards.T, strict=True)
    }


def _cell_text(cell: CellMean, expected: _Expected) -> str:
    value, low, high = expected
    text = f"n={cell.num_generations}, B={cell.problems_per_batch}, T={cell.num_steps}\n"
    if low is not None and high is not None:
        text += f"expected {value:.4f} ({low:.4f} to {high:.4f})\n"
    return text + f"measured {cell.mean:.4f}, {cell.num_seeds} seeds"


def _course(
    cells: Sequence[CellMean],
    over: Sequence[float],
    expected: dict[Pair, _Expected],
    color: str,
    label: str,
) -> list[Series]:
    """Expected reward over some axis, with the measured means as dots."""
    ours = [expected[Pair.of(cell)] for cell in cells]
    texts = tuple(_cell_text(cell, mine) for cell, mine in zip(cells, ours, strict=True))
    return [
        Series(
            x=tuple(over),
            y=tuple(value for value, _, _ in ours),
            low=tuple(low for _, low, _ in ours),
            high=tuple(high for _, _, high in ours),
            label=label,
            color=color,
            width=1.6,
        ),
        Series(
            x=tuple(over),
            y=tuple(cell.mean for cell in cells),
            text=texts,
            color=color,
            dash=None,
            marker="circle",
        ),
    ]


def _what_is_drawn(findings: Findings) -> str:
    if findings.surface is None:
        return "Measured means: without a spread between seeds there is no reward surface."
    return (
        f"Lines: expected reward by the reward surface, with {findings.frontier.confidence:.0%} "
        "intervals; dots: measured means over seeds."
    )


def batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against B at the largest budget, a line for each of up to six n."""
    if not findings.frontier.budgets:
        return LeftOut(reason="no run has reached a budget yet")
    at = findings.frontier.budgets[-1]
    rows: dict[int, list[CellMean]] = {}
    for cell in at.cells:
        rows.setdefault(cell.num_generations, []).append(cell)
    several = [n for n, cells in sorted(rows.items()) if len(cells) > 1]
    if not several:
        reason = "no n was measured with two values of B at the largest budget"
        return LeftOut(reason=reason)
    chosen = _with_best(several, at)
    expected = _expected(findings, at.cells)
    colors = generation_colors(data.generations)
    series = [
        drawn
        for n in chosen
        for drawn in _course(
            rows[n],
            [float(cell.problems_per_batch) for cell in rows[n]],
            expected,
            colors[n],
            f"n = {n}",
        )
    ]
    some = "" if len(chosen) == len(several) else f" {len(chosen)} of {len(several)} n."
    return Figure(
        title=f"Effect of B at {amount(data, at.budget)}",
        caption=_what_is_drawn(findings) + some,
        x=doubling_axis(
            "problems per batch, B", (c.problems_per_batch for n in chosen for c in rows[n])
        ),
        y=reward_axis(data),
        series=tuple(series),
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
    cells = findings.frontier.budgets[-1].cells if findings.frontier.budgets else ()
    products: dict[int, list[CellMean]] = {}
    for cell in cells:
        products.setdefault(cell.num_generations * cell.problems_per_batch, []).append(cell)
    long = [p for p, mine in sorted(products.items()) if len(mine) >= _FEWEST_CELLS]
    if not long:
        reason = f"no product n x B has {_FEWEST_CELLS} cells at the largest budget"
        return LeftOut(reason=reason)
    chosen = evenly_chosen(long, _MOST_LINES)
    expected = _expected(findings, cells)
    series = [
        drawn
        for product, color in zip(chosen, sequential(len(chosen)), strict=True)
        for drawn in _course(
            products[product],
            [float(cell.num_generations) for cell in products[product]],
            expected,
            color,
            f"n x B = {product}",
        )
    ]
    some = "" if len(chosen) == len(long) else f" {len(chosen)} of {len(long)} products."
    return Figure(
        title=f"n against B at equal n x B, {amount(data, findings.frontier.budgets[-1].budget)}",
        caption="Along a line every step trains on as many completions, spread over fewer problems "
        f"from left to right. {_what_is_drawn(findings)}{some}",
        x=generations_axis(c.num_generations for p in chosen for c in products[p]),
        y=reward_axis(data),
        series=tuple(series),
    )


def best_batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """B* against compute, for every n x B of a sweep that fixes it."""
    laws = findings.batch_laws
    if not laws:
        return LeftOut(reason="it takes three n or more at every n x B")
    if not any(law.optima for law in laws):
        return LeftOut(reason="no run has reached a budget yet")
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
    optima = [(at, at.interval) for at in law.optima]
    x = tuple(at.budget * shift for at, _ in optima)
    low = tuple(None if interval is None else interval.low for _, interval in optima)
    high = tuple(None if interval is None else interval.high for _, interval in optima)
    drawn = [
        Series(
            x=x,
            y=tuple(float(at.best) if b is None else b.median for at, b in optima),
            low=low,
            high=high,
            text=tuple(
                f"n x B = {law.completions_per_step} at {amount(data, at.budget)}\nB* {at.words}"
                for at, _ in optima
            ),
            label=f"n x B = {law.completions_per_step}",
            color=color,
            dash=None,
            width=1.6,
            marker="circle",
        )
    ]
    known = [(budget, at, b) for budget, (at, b) in zip(x, optima, strict=True) if b is not None]
    below = [(budget, b.low) for budget, at, b in known if at.left_censored]
    above = [(budget, b.high) for budget, at, b in known if at.right_censored]
    return [
        *drawn,
        *_open_ends(below, color, "triangle-down-open"),
        *_open_ends(above, color, "triangle-up-open"),
    ]


def _open_ends(points: Sequence[tuple[float, float]], color: str, marker: Marker) -> list[Series]:
    """Triangles at (budget, B), if there are any."""
    x, y = tuple(budget for budget, _ in points), tuple(B for _, B in points)
    return [Series(x=x, y=y, color=color, dash=None, marker=marker, size=9)] if points else []


FIGURES = (
    ReportFigure(name="batch", section="Best n", describe=batch_figure),
    ReportFigure(name="tradeoff", section="Best n", describe=tradeoff_figure),
    ReportFigure(name="best_batch", section="Best n", describe=best_batch_figure),
)
