"""Figures of where the optimum lies: n*(C), and reward over n, and over n and B."""

from collections.abc import Sequence
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
from isosweep.analysis.figures.colors import BLUE, GREEN, GREY, SCALE, sequential
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
from isosweep.analysis.statistics.intervals import central_quantiles
from isosweep.analysis.statistics.optima import BestGenerations
from isosweep.analysis.statistics.saturation import Saturation
from isosweep.analysis.statistics.surface import Surface

# More slices than bands that can be distinguished.
_MOST_SLICES = 6


def best_generations_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """n* against compute, with the law's curve, on an axis with a tick at every n of the grid."""
    saturation = findings.saturation
    if not saturation.optima:
        return NO_BUDGET
    generations = data.generations
    x, y = budget_axis(data), generations_axis(generations)
    ends = x.limits or (data.plan.budgets[0], data.plan.budgets[-1])
    edges = [
        level(ends, float(n), "edges of the grid" if i == 0 else None)
        for i, n in enumerate(sorted({generations[0], generations[-1]}))
    ]
    bands, lines = _law(saturation)
    plateau_bands, plateau_lines = _saturation_point(data, saturation, ends, y.limits or (1.0, 1.0))
    return Figure(
        title="Best n against compute",
        caption=_best_generations_caption(findings),
        x=x,
        y=y,
        bands=(*bands, *plateau_bands),
        series=(
            *edges,
            *lines,
            *plateau_lines,
            *_intervals(data, saturation.optima),
            *_censored(saturation.optima),
            *_candidates(data, saturation.optima),
        ),
    )


def growth_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The growth rate of n* against compute, with the bound below which it has stopped."""
    growth = findings.saturation.growth
    if growth is None:
        return LeftOut(reason="the sweep is too small for a growth rate")
    x = budget_axis(data)
    ends = x.limits or (data.plan.budgets[0], data.plan.budgets[-1])
    return Figure(
        title="Growth of the best n against compute",
        caption="Slope of log2 n* over the last third of the decades up to "
        "each, so that neighbours share most of their data; bars: "
        f"{findings.frontier.confidence:.0%} interval. No law is assumed. Where it "
        f"surely lies between the dashed lines at the last budget, {growth.bound:g} doublings per "
        "decade up or down, n* has stopped.",
        x=x,
        y=Axis(title="doublings of n* per decade"),
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
                label="growth rate of n*",
                color=BLUE,
                marker="circle",
                width=1.8,
            ),
        ),
    )


def _best_generations_caption(findings: Findings) -> str:
    confidence = f"{findings.frontier.confidence:.0%}"
    if findings.surface is None:
        return (
            "Dots: the n with the best measured mean. Squares: every n, for without a spread "
            "between seeds none can be distinguished from it."
        )
    text = (
        "Dots: the n of the grid with the best expected reward. Squares: every n of the grid that "
        f"cannot be distinguished from it. Thick bars: {confidence} interval of n*, planned or "
        "not; a triangle at its end says that n* may lie beyond the grid."
    )
    if findings.saturation.curve:
        text += f" Line and band: n*(C) by the laws, median and {confidence} interval."
    if findings.saturation.plateau is not None:
        text += " Green: the plateau, and the compute from which on n* stays on it."
    return text


def _law(saturation: Saturation) -> tuple[list[Band], list[Series]]:
    """n*(C) by the laws, and its interval."""
    if not saturation.curve:
        return [], []
    at, medians = saturation.compute, tuple(value.median for value in saturation.curve)
    line = Series(x=at, y=medians, label="law", color=GREY, width=1.8)
    return [band_of(at, saturation.curve, color=GREY, opacity=0.2)], [line]


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
    level = f"plateau, n = {plateau.median:.3g}"
    begins = f"from {amount(data, settles.median)}"
    return [band_of(x, (plateau,) * 2, color=GREEN)], [
        Series(x=x, y=(plateau.median,) * 2, label=level, **look),
        Series(x=(settles.median,) * 2, y=along, label=begins, dash="dot", **look),
    ]


def _intervals(data: SweepData, optima: Sequence[BestGenerations]) -> list[Series]:
    """Thick upright bars."""
    known = [(at, at.interval) for at in optima if at.interval is not None]
    return [
        Series(
            x=(at.budget,) * 3,
            y=(interval.low, interval.median, interval.high),
            text=(f"n* at {amount(data, at.budget)}:\n{at.words}, median {interval.median:.3g}",)
            * 3,
            label="interval of n*" if i == 0 else None,
            color=BLUE,
            width=7.0,
            opacity=0.4,
        )
        for i, (at, interval) in enumerate(known)
    ]


def _censored(optima: Sequence[BestGenerations]) -> list[Series]:
    """Triangles at the ends of intervals beyond which n* may lie."""
    known = [(at, at.interval) for at in optima if at.interval is not None]
    above = [(at.budget, interval.high) for at, interval in known if at.right_censored]
    below = [(at.budget, interval.low) for at, interval in known if at.left_censored]
    # Off the edge, so that square and dot on it stay readable.
    sides = (
        (above, "triangle-up-open", "larger", 1.16),
        (below, "triangle-down-open", "smaller", 1 / 1.16),
    )
    return [
        points_of(
            [(budget, n * away, f"n* may be {word} than {n:.3g}") for budget, n in points],
            label=f"n* may be {word}",
            color=BLUE,
            dash=None,
            marker=marker,
            size=9,
        )
        for points, marker, word, away in sides
        if points
    ]


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
        label="not distinguished from the best",
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
