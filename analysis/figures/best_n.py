"""Figures of n*(C), n_d(C) and their growth, and of B*(C) where n x B is fixed."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    NO_BUDGET,
    RED,
    Figure,
    LeftOut,
    bars,
    compute_axis,
    doublings_axis,
    finish,
    marks,
    panels,
    sequential,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.config.analysis import Quantity
from isosweep.words.numbers import amount


class Named(NamedTuple):
    """Name and look of one of the two n. `aside`: factor on the budget at which it is drawn."""

    symbol: str
    words: str
    color: str
    width: float
    opacity: float
    aside: float


NAMED: dict[Quantity, Named] = {
    "best": Named("n*", "the best n", BLUE, 7.0, 0.4, 1.0),
    "enough": Named("n_d", "the smallest n that is good enough", RED, 3.0, 0.9, 1.11),
}
# Half of the least length of a bar, as a factor of n: one of no length would not be seen.
_SHORTEST = 1.02
# How far off an end a triangle stands, so that what lies on the end stays readable.
_OFF_END = 1.16


def best_n_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """n* and n_d against compute, on an axis with a tick at every n of the grid."""
    optima = findings.frontier.optima
    if not optima:
        return NO_BUDGET
    (axes,) = panels()
    unit = data.plan.budget_unit
    compute_axis(axes, unit, data.plan.budgets[0], data.plan.budgets[-1], 1.3)
    doublings_axis(axes, "y", "rollouts per problem, n", data.generations)
    for edge in {data.generations[0], data.generations[-1]}:
        axes.axhline(edge, color=GREY, ls="--", lw=1)
    _draw_plateau(axes, findings)
    for quantity, named in NAMED.items():
        ends = [
            (at.budget * named.aside, n, f"{named.symbol} at {amount(at.budget, unit)}: {n}")
            for at in optima
            if (n := at.judged(quantity)) is not None
        ]
        look = {"alpha": named.opacity, "label": f"interval of {named.symbol}"}
        _draw_intervals(axes, ends, named.color, named.width, **look)
    at_budget = [(at, amount(at.budget, unit)) for at in optima]
    candidates = [
        (at.budget, each, f"n = {each} cannot be distinguished from the best at {where}")
        for at, where in at_budget
        for each in at.candidates
    ]
    marks(axes, candidates, BLUE, "s", size=8, hollow=True, label="may be best")
    best = [
        (at.budget, at.best, f"best of the grid at {where}: {at.best}") for at, where in at_budget
    ]
    marks(axes, best, INK, label="best of the grid")
    smallest = ", and smallest n that is good enough," if any(at.n_d for at in optima) else ""
    return finish(axes, f"Best n{smallest} against compute", _best_n_caption(findings))


def _best_n_caption(findings: Findings) -> str:
    saturation = findings.saturation
    if findings.surface is None:
        return (
            "Dots: the n with the best measured mean. Squares: every n, for without a spread "
            "between seeds none can be distinguished from it."
        )
    text = (
        "Dots: the n of the grid with the best expected reward. Squares: every n of the grid that "
        f"cannot be distinguished from it. Thick blue bars: {findings.frontier.confidence:.0%} "
        "interval of n*, the best n, planned or not. Thin orange bars, a little to the right of "
        "their budget: that of n_d, the smallest n that is good enough, at most "
        f"{saturation.reason.margin:g} of reward below the best. A triangle at an end: it may lie "
        "further out. Dashes across bars: medians. Dashed lines: the edges of the grid."
    )
    if saturation.plateau is not None:
        symbol = NAMED[saturation.quantity].symbol
        text += f" Green: the plateau of {symbol}, and the compute from which on it stays."
    return text


def _draw_plateau(axes: Axes, findings: Findings) -> None:
    """The plateau as a level with its interval, and the compute from which on it stays."""
    plateau, settles = findings.saturation.plateau, findings.saturation.settles_at
    if plateau is None or settles is None:
        return
    x = (settles.median, axes.get_xlim()[1])
    axes.fill_between(x, plateau.low, plateau.high, color=GREEN, alpha=0.15, lw=0)
    label = f"plateau of {NAMED[findings.saturation.quantity].symbol}, {plateau.median:.3g}"
    axes.plot(x, (plateau.median,) * 2, color=GREEN, label=label)
    axes.axvline(settles.median, color=GREEN, ls=":")


def _draw_intervals(
    axes: Axes, found: list[tuple[float, Interval, str]], color: str, width: float, **look: Any
) -> None:
    """Upright bars, and triangles at the ends beyond which the value may lie."""
    ends = [
        (x, min(at.low, at.median / _SHORTEST), max(at.high, at.median * _SHORTEST), tip)
        for x, at, tip in found
    ]
    bars(axes, ends, color, width=width, **look)
    marks(
        axes, [(x, at.median, tip) for x, at, tip in found], color, "_", size=6 + width, hollow=True
    )
    above = [(x, at.high * _OFF_END, "may be larger") for x, at, _ in found if at.open_above]
    below = [(x, at.low / _OFF_END, "may be smaller") for x, at, _ in found if at.open_below]
    for marker, points in (("^", above), ("v", below)):
        marks(axes, points, color, marker, size=4 + width / 2, hollow=True)


def growth_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The growth rate of the n that is judged, with the bound below which it has stopped."""
    growth, named = findings.saturation.growth, NAMED[findings.saturation.quantity]
    if growth is None:
        return LeftOut(reason="the sweep is too small for a growth rate")
    symbol, color, unit = named.symbol, named.color, data.plan.budget_unit
    (axes,) = panels()
    compute_axis(axes, unit, data.plan.budgets[0], data.plan.budgets[-1], 1.3)
    axes.set_ylabel(f"doublings of {symbol} per decade")
    axes.axhline(growth.bound, color=GREY, ls="--", lw=1, label=f"stopped: within {growth.bound:g}")
    axes.axhline(-growth.bound, color=GREY, ls="--", lw=1)
    rates = [
        (at.budget, at.rate, f"up to {amount(at.budget, unit)}:\n{at.rate} per decade")
        for at in growth.history
    ]
    bars(axes, [(x, at.low, at.high, tip) for x, at, tip in rates], color)
    censored = {
        at.budget
        for at in findings.frontier.optima
        if (n := at.judged(findings.saturation.quantity)) and (n.open_below or n.open_above)
    }
    looks = {False: f"growth rate of {symbol}", True: f"the same, {symbol} may lie beyond the grid"}
    for hollow, label in looks.items():
        points = [(x, at.median, tip) for x, at, tip in rates if (x in censored) == hollow]
        marks(axes, points, color, hollow=hollow, label=label)
    return finish(
        axes,
        f"Growth of {symbol}, {named.words}, against compute",
        f"Growth rate of {symbol} in a sliding window: doublings per decade (tenfold) of compute, "
        "over the last third of the decades up to each budget. Neighbouring points overlap. Bars: "
        f"{findings.frontier.confidence:.0%} interval. Hollow: {symbol} may lie beyond all n that "
        "were read at that budget, so that its rate is one inside the grid. "
        f"{symbol} has stopped if the bar of the last "
        f"point lies between the dashed lines, at {growth.bound:g} and -{growth.bound:g}.",
    )


def best_batch_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """B* against compute, for every n x B of a sweep that fixes it."""
    laws, unit = findings.batch_laws, data.plan.budget_unit
    if not laws:
        return LeftOut(reason="it takes three n or more at every n x B")
    if not any(law.optima for law in laws):
        return NO_BUDGET
    (axes,) = panels()
    compute_axis(axes, unit, data.plan.budgets[0], data.plan.budgets[-1], 1.3)
    doublings_axis(axes, "y", "problems per batch, B", data.batches)
    for i, (law, color) in enumerate(zip(laws, sequential(len(laws)), strict=True)):
        # Side by side, so that intervals do not hide each other.
        shift, name = 1.04 ** (i - (len(laws) - 1) / 2), f"n x B = {law.completions_per_step}"
        at_budget = [
            (at, at.budget * shift, f"{name} at {amount(at.budget, unit)}: B* {at}")
            for at in law.optima
        ]
        found = [(x, at.interval, tip) for at, x, tip in at_budget if at.interval is not None]
        _draw_intervals(axes, found, color, 1.6)
        dots = [
            (x, at.interval.median if at.interval else at.best, tip) for at, x, tip in at_budget
        ]
        marks(axes, dots, color, label=name)
    what = (
        "Dots: the B with the best measured mean."
        if findings.surface is None
        else "Dots and bars: B*(C) = (n x B) / n*(C), median and "
        f"{findings.frontier.confidence:.0%} interval; a triangle at an end says that B* may lie "
        "beyond the grid."
    )
    aside = "" if len(laws) == 1 else " Shifted sideways a little."
    return finish(axes, "Best B against compute at equal n x B", what + aside)
