"""Figures of n*(C) and n_d(C), the smallest n that is good enough, and of their growth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.canvas import (
    NO_BUDGET,
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    compute_words,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, GREY, INK, RED
from isosweep.analysis.statistics.best_n import BestN
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.verdict import Saturation
from isosweep.config.analysis import Quantity

# Half of the least length of a bar, as a factor of n: one of no length would not be seen.
_SHORTEST = 1.02
# How far off an edge a triangle stands, so that what lies on the edge stays readable.
_OFF_EDGE = 1.16


@dataclass(frozen=True, kw_only=True)
class _Named:
    """Name and look of one of the two n. `aside`: factor on the budget at which it is drawn."""

    symbol: str
    words: str
    color: str
    width: float
    opacity: float
    aside: float = 1.0
    triangle: float = 8.0


_NAMED: dict[Quantity, _Named] = {
    "best": _Named(symbol="n*", words="the best n", color=BLUE, width=7.0, opacity=0.4),
    "enough": _Named(
        symbol="n_d",
        words="smallest good enough",
        color=RED,
        width=3.0,
        opacity=0.9,
        aside=1.11,
        triangle=4.5,
    ),
}


def best_n_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """n* and the smallest n that is good enough against compute, on an axis with a tick at
    every n of the grid."""
    saturation = findings.saturation
    optima = findings.frontier.optima
    if not optima:
        return NO_BUDGET
    generations = data.generations

    def draw(canvas: Canvas) -> None:
        ends = canvas.budgets(data)
        canvas.generations("y", generations)
        for n in sorted({generations[0], generations[-1]}):
            canvas.level(n)
        _draw_plateau(canvas, data, saturation, ends[1])
        for quantity, named in _NAMED.items():
            found = [(at.budget, known) for at in optima if (known := at.judged(quantity))]
            _draw_intervals(canvas, data, named, found)
        _draw_candidates(canvas, data, optima)

    known = [at.n_d for at in optima if at.n_d]
    and_smallest = ", and smallest n that is good enough," if known else ""
    return Figure(
        title=f"Best n{and_smallest} against compute",
        caption=_best_n_caption(findings),
        draw=(draw,),
    )


def _best_n_caption(findings: Findings) -> str:
    confidence, saturation = f"{findings.frontier.confidence:.0%}", findings.saturation
    if findings.surface is None:
        return (
            "Dots: the n with the best measured mean. Squares: every n, for without a spread "
            "between seeds none can be distinguished from it."
        )
    text = (
        "Dots: the n of the grid with the best expected reward. Squares: every n of the grid that "
        f"cannot be distinguished from it. Thick blue bars: {confidence} interval of n*, the best "
        "n, planned or not. Thin orange bars, a little to the right of their budget: that of n_d, "
        f"the smallest n that is good enough, at most {saturation.reason.margin:g} of reward below "
        "the best. A triangle at an end: it may lie further out. Dashed: the edges of the grid."
    )
    named = _NAMED[saturation.quantity]
    if saturation.plateau is not None:
        text += f" Green: the plateau of {named.symbol}, and the compute from which on it stays."
    return text


def _draw_plateau(canvas: Canvas, data: SweepData, saturation: Saturation, last: float) -> None:
    """The plateau as a level, and C_sat as an upright line."""
    plateau, settles = saturation.plateau, saturation.settles_at
    if plateau is None or settles is None:
        return
    x = (settles.median, last)
    canvas.band(x, (plateau.low,) * 2, (plateau.high,) * 2, GREEN)
    symbol = _NAMED[saturation.quantity].symbol
    canvas.line(x, (plateau.median,) * 2, GREEN, label=f"plateau of {symbol}, {plateau.median:.3g}")
    canvas.line(
        (settles.median,) * 2,
        canvas.axes.get_ylim(),
        GREEN,
        dash=":",
        label=f"from {compute_words(data, settles.median)}",
    )


def _draw_intervals(
    canvas: Canvas, data: SweepData, named: _Named, ranges: Sequence[tuple[float, Interval]]
) -> None:
    """Upright bars, and triangles at the ends beyond which the n may lie."""
    for i, (budget, found) in enumerate(ranges):
        low, high = found.low, found.high
        if high < low * _SHORTEST**2:
            middle = math.sqrt(low * high)
            low, high = middle / _SHORTEST, middle * _SHORTEST
        name, x = f"{named.symbol}, {named.words}", budget * named.aside
        canvas.bar(
            x,
            (low, high),
            named.color,
            width=named.width,
            alpha=named.opacity,
            label=None if i else name,
            tip=f"{name}, at {compute_words(data, budget)}:\n{found}",
        )
        for is_open, marker, end, word in (
            (found.open_above, "^", high * _OFF_EDGE, "larger"),
            (found.open_below, "v", low / _OFF_EDGE, "smaller"),
        ):
            if is_open:
                point = (x, end, f"{named.symbol} may be {word}")
                canvas.marks([point], named.color, marker, size=named.triangle, hollow=True)


def _draw_candidates(canvas: Canvas, data: SweepData, optima: Sequence[BestN]) -> None:
    candidates = [
        (
            at.budget,
            float(n),
            f"n={n} cannot be distinguished from the best\nat {compute_words(data, at.budget)}",
        )
        for at in optima
        for n in at.candidates
    ]
    canvas.marks(candidates, BLUE, "s", size=8, hollow=True, label="may be best")
    best = [
        (
            at.budget,
            float(at.best),
            f"best: n={at.best} at {compute_words(data, at.budget)}\nn*: {at}",
        )
        for at in optima
    ]
    canvas.marks(best, INK, label="best of the grid")


def growth_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The growth rate of the n that is judged, with the bound below which it has stopped."""
    growth = findings.saturation.growth
    if growth is None:
        return LeftOut(reason="the sweep is too small for a growth rate")
    named = _NAMED[findings.saturation.quantity]
    history = growth.history

    def draw(canvas: Canvas) -> None:
        canvas.budgets(data)
        canvas.axes.set_ylabel(f"doublings of {named.symbol} per decade")
        canvas.level(growth.bound, f"stopped: within {growth.bound:g}", GREY)
        canvas.level(-growth.bound)
        tips = [
            f"up to {compute_words(data, at.budget)}:\n{at.rate} doublings per decade"
            for at in history
        ]
        for at, tip in zip(history, tips, strict=True):
            canvas.bar(at.budget, (at.rate.low, at.rate.high), named.color, tip=tip)
        rates = [at.rate.median for at in history]
        label = f"growth rate of {named.symbol}"
        canvas.line([at.budget for at in history], rates, named.color, label=label)
        points = zip([at.budget for at in history], rates, tips, strict=True)
        canvas.marks(points, named.color)

    judged = "the best n" if named.symbol == "n*" else "the smallest n that is good enough"
    return Figure(
        title=f"Growth of {named.symbol}, {judged}, against compute",
        caption=f"Growth rate of {named.symbol} in a sliding window: doublings per decade "
        "(tenfold) of compute, over the last third of the decades up to each budget. Neighbouring "
        f"points overlap. Bars: {findings.frontier.confidence:.0%} interval. {named.symbol} has "
        "stopped if the bar of the last point lies between the dashed lines, at "
        f"{growth.bound:g} and -{growth.bound:g}.",
        draw=(draw,),
    )


FIGURES = (
    ReportFigure(name="best_n", section="Answer", describe=best_n_figure),
    ReportFigure(name="growth", section="Best n", describe=growth_figure),
)
