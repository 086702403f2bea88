"""Figures of where the optimum lies: n*(C) and the smallest n that is good enough, and reward over
n, and over n and B."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    choice_text,
    evenly_chosen,
    generations_axis,
    level,
    reward_axis,
    some_of,
)
from isosweep.analysis.figures.colors import BLUE, GREEN, RED, SCALE, sequential
from isosweep.analysis.figures.description import (
    DOTS,
    NO_BUDGET,
    Axis,
    Band,
    Figure,
    HeatMap,
    LeftOut,
    Look,
    ReportFigure,
    Series,
    band_of,
    points_of,
    series_of,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier
from isosweep.analysis.statistics.intervals import Interval, central_quantiles
from isosweep.analysis.statistics.optima import BestGenerations, Range
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.surface import Surface
from isosweep.config.analysis import Quantity

# More slices than bands that can be distinguished.
_MOST_SLICES = 6
# Half of the least length of a bar, as a factor of n.
_SHORTEST = 1.02


@dataclass(frozen=True, kw_only=True)
class _Named:
    """How an n is called, and what it looks like. `aside`: the factor of compute by which it is
    drawn beside its budget."""

    symbol: str
    words: str
    color: str
    width: float
    opacity: float
    aside: float = 1.0

    @property
    def bar(self) -> str:
        """What the legend says of its intervals."""
        return f"{self.symbol}, {self.words}"


_NAMED: dict[Quantity, _Named] = {
    "best": _Named(symbol="n*", words="the best n", color=BLUE, width=7.0, opacity=0.4),
    "enough": _Named(
        symbol="n_d",
        words="smallest good enough",
        color=RED,
        width=3.0,
        opacity=0.9,
        aside=1.11,
    ),
}


def best_generations_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """n* and the smallest n that is good enough against compute, on an axis with a tick at
    every n of the grid."""
    saturation = findings.saturation
    if not saturation.optima:
        return NO_BUDGET
    generations = data.generations
    x, y = budget_axis(data), generations_axis(generations)
    ends = x.limits or (data.plan.budgets[0], data.plan.budgets[-1])
    edges = [level(ends, float(n), None) for n in sorted({generations[0], generations[-1]})]
    plateau_bands, plateau_lines = _saturation_point(data, saturation, ends, y.limits or (1.0, 1.0))
    ranges = {
        quantity: [(at.budget, found) for at in saturation.optima if (found := at.of(quantity))]
        for quantity in _NAMED
    }
    and_smallest = ", and smallest n that is good enough," if ranges["enough"] else ""
    return Figure(
        title=f"Best n{and_smallest} against compute",
        caption=_best_generations_caption(findings),
        x=x,
        y=y,
        bands=tuple(plateau_bands),
        series=(
            *edges,
            *plateau_lines,
            *(bar for q, found in ranges.items() for bar in _intervals(data, _NAMED[q], found)),
            *_open_ends(ranges),
            *_candidates(data, saturation.optima),
        ),
    )


def growth_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The growth rate of the n that is judged, with the bound below which it has stopped."""
    growth = findings.saturation.growth
    if growth is None:
        return LeftOut(reason="the sweep is too small for a growth rate")
    named = _NAMED[findings.saturation.quantity]
    x = budget_axis(data)
    ends = x.limits or (data.plan.budgets[0], data.plan.budgets[-1])
    return Figure(
        title=f"Growth of {named.symbol}, {_said(findings)}, against compute",
        caption=f"Growth rate of {named.symbol} in a sliding window: doublings per decade "
        "(tenfold) of compute, over the last third of the decades up to each budget. Neighbouring "
        f"points overlap. Bars: {findings.frontier.confidence:.0%} interval. {named.symbol} has "
        "stopped if the bar of the last point lies between the dashed lines, at "
        f"{growth.bound:g} and -{growth.bound:g}.",
        x=x,
        y=Axis(title=f"doublings of {named.symbol} per decade"),
        series=(
            level(ends, growth.bound, f"stopped: within {growth.bound:g}"),
            level(ends, -growth.bound, None),
            series_of(
                growth.history,
                lambda at: at.budget,
                lambda at: at.rate.median,
                ends=lambda at: at.rate,
                text=lambda at: (
                    f"up to {amount(data, at.budget)}:\n{at.rate.words} doublings per decade"
                ),
                label=f"growth rate of {named.symbol}",
                color=named.color,
                marker="circle",
                width=1.8,
            ),
        ),
    )


def _said(findings: Findings) -> str:
    """The n that is judged, in words."""
    if findings.saturation.quantity == "best":
        return "the best n"
    return "the smallest n that is good enough"


def _best_generations_caption(findings: Findings) -> str:
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


def _saturation_point(
    data: SweepData,
    saturation: Saturation,
    across: tuple[float, float],
    along: tuple[float, float],
) -> tuple[list[Band], list[Series]]:
    """The plateau as a level, and C_sat as an upright line."""
    plateau, settles = saturation.plateau, saturation.settles_at
    if plateau is None or settles is None:
        return [], []
    x, look = (settles.median, across[1]), Look(color=GREEN, width=1.8)
    level = f"plateau of {_NAMED[saturation.quantity].symbol}, {plateau.median:.3g}"
    begins = f"from {amount(data, settles.median)}"
    return [band_of(x, (plateau,) * 2, color=GREEN)], [
        Series(x=x, y=(plateau.median,) * 2, label=level, **look),
        Series(x=(settles.median,) * 2, y=along, label=begins, dash="dot", **look),
    ]


# Of an n, where it lies at every budget that was read.
_Ranges = Sequence[tuple[float, Range]]


def _intervals(data: SweepData, named: _Named, ranges: _Ranges) -> list[Series]:
    """Upright bars."""
    return [
        Series(
            x=(budget * named.aside,) * 3,
            y=_ends(found.interval),
            text=(f"{named.bar}, at {amount(data, budget)}:\n{found.words}",) * 3,
            label=named.bar if i == 0 else None,
            color=named.color,
            width=named.width,
            opacity=named.opacity,
        )
        for i, (budget, found) in enumerate(ranges)
    ]


def _ends(interval: Interval) -> tuple[float, float, float]:
    """From end to end; a bar of no length would not be seen."""
    low, high = interval.low, interval.high
    if high < low * _SHORTEST**2:
        middle = math.sqrt(low * high)
        low, high = middle / _SHORTEST, middle * _SHORTEST
    return low, interval.median, high


def _open_ends(ranges: Mapping[Quantity, _Ranges]) -> list[Series]:
    """Triangles at the ends of intervals beyond which an n may lie: the caption names them."""
    # Off the edge, so that square and dot on it stay readable.
    sides = (("triangle-up-open", "larger", 1.16), ("triangle-down-open", "smaller", 1 / 1.16))
    found = []
    for marker, word, away in sides:
        for quantity, known in ranges.items():
            named = _NAMED[quantity]
            ends = [
                (budget, each.interval.high if word == "larger" else each.interval.low)
                for budget, each in known
                if (each.open_above if word == "larger" else each.open_below)
            ]
            points = [
                (budget * named.aside, n * away, f"{named.symbol} may be {word} than {n:.3g}")
                for budget, n in ends
            ]
            if points:
                look = Look(color=named.color, dash=None, marker=marker)
                size = 9 if quantity == "best" else 5
                found.append(points_of(points, size=size, **look))
    return found


def _candidates(data: SweepData, optima: Sequence[BestGenerations]) -> list[Series]:
    inside = points_of(
        [
            (
                at.budget,
                float(n),
                f"n={n} cannot be distinguished from the best\nat {amount(data, at.budget)}",
            )
            for at in optima
            for n in at.candidates
        ],
        label="may be best",
        color=BLUE,
        dash=None,
        marker="square-open",
        size=10,
    )
    best = series_of(
        optima,
        lambda at: at.budget,
        lambda at: at.best,
        text=lambda at: f"best: n={at.best} at {amount(data, at.budget)}\nn*: {at.words}",
        label="best of the grid",
        **DOTS,
    )
    return [inside, best]


def slices_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against n with the compute held fixed, for up to six budgets."""
    usable = [(i, at) for i, at in enumerate(findings.frontier.budgets) if len(at.choices) > 1]
    if not usable:
        return LeftOut(reason="it takes two n measured at one budget")
    chosen = evenly_chosen(usable, _MOST_SLICES)
    bands, series = [], []
    for (i, at), color in zip(chosen, sequential(len(chosen)), strict=True):
        label = amount(data, at.budget)
        dots = series_of(
            at.choices,
            lambda choice: choice.num_generations,
            lambda choice: choice.cell.mean,
            text=partial(choice_text, data, at.budget),
            color=color,
            **DOTS,
        )
        if findings.surface is None:
            series += [Series(x=dots.x, y=dots.y, label=label, color=color, width=1.6), dots]
            continue
        n, middle, low, high = _slice(findings.surface, i, at, findings.frontier.confidence)
        bands.append(Band(x=n, low=low, high=high, color=color))
        series += [Series(x=n, y=middle, label=label, color=color, width=1.6), dots]
    what = (
        "Lines join measured means, for without a spread between seeds there is no reward surface."
        if findings.surface is None
        else "Lines and bands: the reward surface at each n's best B, with "
        f"{findings.frontier.confidence:.0%} intervals. Dots: measured means over seeds."
    )
    return Figure(
        title="Reward against n at equal compute",
        caption=what + some_of(chosen, usable, "budgets"),
        x=generations_axis(data.generations),
        y=reward_axis(data),
        bands=tuple(bands),
        series=tuple(series),
    )


def _slice(
    surface: Surface, place: int, at: BudgetFrontier, confidence: float
) -> tuple[tuple[float, ...], ...]:
    """n, mean, and ends of the interval along log2 n, between n measured at this budget."""
    supported = surface.supported[place]
    inside = np.flatnonzero(supported.any(axis=1))
    draws = surface.draws[:, place, inside]  # (draws, log2 n, batches)
    best = np.where(supported[inside], draws.mean(axis=0), -np.inf).argmax(axis=1)
    rewards = np.take_along_axis(draws, best[None, :, None], axis=2)[..., 0]
    _, low, high = central_quantiles(rewards, confidence)
    columns = (2.0 ** surface.log2_n[inside], rewards.mean(axis=0), low, high)
    return tuple(tuple(column.tolist()) for column in columns)


def heat_map_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Mean reward of every (n, B) at the largest budget that some run has reached."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    if len(data.generations) == 1 or len(data.batches) == 1:
        return LeftOut(reason="it takes several n and several B")
    at = findings.frontier.budgets[-1]
    means = {Pair.of(cell): cell.mean for cell in at.cells}
    rejected = {Pair.of(r) for r in data.plan.rejected if r.budget == at.budget}
    fell = _left_with(data, at.budget)
    generations = sorted({*data.generations, *(n for n, _ in rejected)}, reverse=True)
    batches = sorted({*data.batches, *(B for _, B in rejected)})

    def text(n: int, B: int) -> str:
        mean = means.get(Pair(n, B))
        if mean is not None:
            return f"{mean:.3f}"
        if (n, B) in fell:
            return f"fell to {fell[Pair(n, B)]:.3f}"
        return "R" if (n, B) in rejected else "–"

    return Figure(
        title=f"Mean reward at {amount(data, at.budget)}",
        caption="Mean over the seeds of every (n, B) that keep their gain; where all of them fell, "
        "what they were left with. R: rejected by the plan; –: no run has come that far.",
        x=Axis(title="problems per batch, B"),
        y=Axis(title="rollouts per problem, n"),
        heat_map=HeatMap(
            rows=tuple(str(n) for n in generations),
            columns=tuple(str(B) for B in batches),
            values=tuple(tuple(means.get(Pair(n, B)) for B in batches) for n in generations),
            text=tuple(tuple(text(n, B) for B in batches) for n in generations),
            scale_title="reward",
            scale=SCALE[::20],
        ),
    )


def _left_with(data: SweepData, budget: float) -> dict[Pair, float]:
    """Mean reward of the runs of every (n, B) that had fallen by `budget`."""
    left: dict[Pair, list[float]] = {}
    for reading in data.readings:
        if reading.fallen is not None and reading.cell.budget == budget:
            left.setdefault(Pair.of(reading.cell), []).append(reading.fallen)
    return {pair: float(np.mean(rewards)) for pair, rewards in left.items()}


FIGURES = (
    ReportFigure(name="best_n", section="Answer", describe=best_generations_figure),
    ReportFigure(name="growth", section="Best n", describe=growth_figure),
    ReportFigure(name="slices", section="Best n", describe=slices_figure),
    ReportFigure(name="heat_map", section="Best n", describe=heat_map_figure),
)
