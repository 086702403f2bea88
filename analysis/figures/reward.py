"""Figures of reward against compute: single runs, and the best n at every budget."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    choice_text,
    compute_axis,
    generation_colors,
    record_texts,
    reward_axis,
)
from isosweep.analysis.figures.colors import GREY
from isosweep.analysis.figures.description import (
    BREAK,
    EndLabel,
    Figure,
    LeftOut,
    Look,
    Marker,
    Point,
    ReportFigure,
    Series,
    points_of,
    series_of,
)
from isosweep.analysis.figures.labels import padded, spread
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean, Choice, Frontier

# States of a run that is no reason for a mark where its records end.
_ENDED_WELL = ("finished", None)
_BEST_BATCH = "best B of each n"
# More runs than lines that can be told apart.
_MANY_RUNS = 60


def reward_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against compute: every run, the mean over seeds, and the frontier.

    With several B one group of lines for each, and first one with each n at its best B.
    """
    frontier = findings.frontier
    if not any(np.any(curve.compute > 0) for curve in data.curves):
        return LeftOut(reason="no run has left a record past step 0")
    colors = generation_colors(data.generations)
    groups = (_BEST_BATCH, *(f"B = {B}" for B in data.batches)) if len(data.batches) > 1 else ()
    best = _best_batches(data, frontier)
    thin, thick = [], []
    for pair, curves in by_pair(data.curves, lambda curve: curve.run).items():
        own: tuple[str, ...] = (f"B = {pair.problems_per_batch}",) if groups else ()
        if groups and best.get(pair.num_generations) == pair.problems_per_batch:
            own = (_BEST_BATCH, *own)
        color = colors[pair.num_generations]
        thin += _runs_series(data, curves, color, own)
        thick.append(_mean_series(data, frontier, pair, color, own))
    marked, about_marks = _marks(data, colors)
    if frontier.budgets:
        marked.append(_frontier_series(data, frontier.budgets, label="best n", width=1.4, size=7.0))
    limits = padded([y for each in (*thin, *thick, *marked) for y in (*each.y, *_known_ends(each))])
    choice = " At first each n is at its best B." if groups else ""
    return Figure(
        title="Held-out reward against compute",
        caption="Thin lines: single runs. Thick lines: mean over seeds, at the budgets."
        f"{choice} {_about_best(findings)}{about_marks}",
        x=compute_axis(data),
        y=replace(reward_axis(data), limits=limits),
        series=(*thin, *thick, *marked),
        labels=_line_labels(data, thin, thick, limits),
        groups=groups,
    )


def _best_batches(data: SweepData, frontier: Frontier) -> dict[int, int]:
    """The best B of every n at the largest budget at which it was read; else the smallest run."""
    best = {run.num_generations: run.problems_per_batch for run in reversed(data.plan.runs)}
    for at in frontier.budgets:
        best |= {c.num_generations: c.cell.problems_per_batch for c in at.choices}
    return best


def _known_ends(series: Series) -> list[float]:
    return [end for end in (*series.low, *series.high) if end is not None]


def _line_labels(
    data: SweepData, thin: Sequence[Series], thick: Sequence[Series], limits: tuple[float, float]
) -> tuple[EndLabel, ...]:
    """`n = 8` at the end of every mean; of an n that has none, at the end of its runs."""
    names = {color: f"n = {n}" for n, color in generation_colors(data.generations).items()}
    lines = [line for line in thick if line.x]
    told = {(line.color, line.groups) for line in lines}
    lines += [line for line in thin if (line.color, line.groups) not in told]
    # Each line is in one or two groups, and its label has a place in each of them.
    labels = [
        EndLabel(x=line.x[-1], y=line.y[-1], text=names[line.color], color=line.color, groups=group)
        for line in lines
        for group in _single(line.groups)
    ]
    return spread(labels, limits)


def _about_best(findings: Findings) -> str:
    """What the diamonds are."""
    if not findings.frontier.budgets:
        return "No run has reached a budget yet."
    if findings.surface is None:
        return (
            "Diamonds: the best measured mean at each budget, which favours a lucky cell; without "
            "a spread between seeds there is no surface, and no interval."
        )
    return (
        "Diamonds: the expected reward of the best n at each budget and its "
        f"{findings.frontier.confidence:.0%} interval, by the reward surface. It draws the "
        "luckiest cells towards their neighbours, so that a diamond may lie below the best mean."
    )


def _single(groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(name,) for name in groups] if groups else [()]


def _runs_series(
    data: SweepData, curves: Sequence[Curve], color: str, groups: tuple[str, ...]
) -> list[Series]:
    """All runs of one (n, B) as one series, which is drawn far faster than one for each."""
    points: list[Point] = []
    longest = 0
    for curve in curves:
        past = np.flatnonzero(curve.compute > 0)
        if past.size:
            longest = max(longest, len(past))
            points += [BREAK] if points else []
            courses = curve.compute[past].tolist(), curve.reward[past].tolist()
            points += zip(*courses, record_texts(data, curve, past), strict=True)
    if not points:
        return []
    # A line through one point is not seen.
    marker: Marker | None = "circle" if longest == 1 else None
    opacity = 0.55 if len(data.curves) <= _MANY_RUNS else 0.25
    look: Look = {"color": color, "opacity": opacity, "groups": groups}
    return [points_of(points, width=1.0, marker=marker, size=4, **look)]


def _marks(data: SweepData, colors: dict[int, str]) -> tuple[list[Series], str]:
    """Marks where runs collapsed or stopped early, and the words that explain them."""
    collapsed = [(c, c.collapsed_at) for c in data.curves if c.collapsed_at is not None]
    stopped = [
        (c, len(c.compute) - 1)
        for c in data.curves
        if c.status not in _ENDED_WELL and c.compute.size and c.compute[-1] > 0
    ]
    series, words = [], ""
    if collapsed:
        series += _mark_series(data, collapsed, colors, "x-open", "collapsed")
        words += " Crosses: where a run collapsed; the mean of its n ends there."
    if stopped:
        series += _mark_series(data, stopped, colors, "circle-open", "not finished")
        states = ", ".join(sorted({str(curve.status) for curve, _ in stopped}))
        words += f" Open circles: the last record of a run that has not finished ({states})."
    unseen = sum(not np.any(curve.compute > 0) for curve in data.curves)
    if unseen:
        words += f" Not drawn, for want of a record past step 0: {unseen} of {len(data.curves)}"
        words += " runs."
    return series, words


def _mark_series(
    data: SweepData,
    places: Sequence[tuple[Curve, int]],
    colors: dict[int, str],
    marker: Marker,
    label: str,
) -> list[Series]:
    """One series for each n, and the legend's entry."""
    series = [Series(x=(), y=(), label=label, color=GREY, dash=None, marker=marker, size=8)]
    for n, color in colors.items():
        mine = [(curve, i) for curve, i in places if curve.run.num_generations == n]
        if mine:
            series.append(
                series_of(
                    mine,
                    lambda at: at[0].compute[at[1]],
                    lambda at: at[0].reward[at[1]],
                    text=lambda at: (
                        f"{label}: {_reason(at[0])}\n{record_texts(data, at[0], at[1:])[0]}"
                    ),
                    color=color,
                    dash=None,
                    marker=marker,
                    size=8,
                )
            )
    return series


def _reason(curve: Curve) -> str:
    status = curve.status or "no status"
    # A traceback would cover the figure; the table of missing runs holds it all.
    return f"{status}, {curve.status_reason[:80]}" if curve.status_reason else status


def _mean_series(
    data: SweepData, frontier: Frontier, pair: Pair, color: str, groups: tuple[str, ...]
) -> Series:
    """Mean reward over seeds of one (n, B), at every budget by which none of them had fallen: the
    mean of those that lasted goes up where others fall."""
    fell = [
        r.cell.budget for r in data.readings if r.fallen is not None and Pair.of(r.cell) == pair
    ]
    cells = [
        (at.budget, c)
        for at in frontier.budgets
        if at.budget < min(fell, default=math.inf)
        for c in at.cells
        if Pair.of(c) == pair
    ]

    def text(at: tuple[float, CellMean]) -> str:
        budget, c = at
        return (
            f"mean over {c.num_seeds} seed{'s' * (c.num_seeds > 1)} at {amount(data, budget)}\n"
            f"n={c.num_generations}, B={c.problems_per_batch}, T={c.num_steps}\n"
            f"reward {c.mean:.4f}"
        )

    look: Look = {"color": color, "width": 2.0, "marker": "circle", "size": 4, "groups": groups}
    return series_of(cells, lambda at: at[0], lambda at: at[1].mean, text=text, **look)


def _reward_of(choice: Choice) -> float:
    """Expected reward; the measured mean without a surface."""
    return choice.cell.mean if choice.expected is None else choice.expected


def _frontier_series(data: SweepData, budgets: Iterable[BudgetFrontier], **look: Any) -> Series:
    """The best choice at each budget, as diamonds with intervals."""
    return series_of(
        budgets,
        lambda at: at.budget,
        lambda at: _reward_of(at.best),
        ends=lambda at: at.best.interval,
        text=lambda at: f"best: {choice_text(data, at.budget, at.best)}",
        dash=None,
        marker="diamond",
        **look,
    )


def envelope_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward of the best n at each budget, over that of every fixed n."""
    budgets = findings.frontier.budgets
    if len(budgets) < 2:
        return LeftOut(reason="it takes two budgets that runs have reached")
    colors = generation_colors(data.generations)
    series = []
    for n, color in colors.items():
        mine = [(at.budget, c) for at in budgets for c in at.choices if c.num_generations == n]
        if not mine:
            continue
        series.append(
            series_of(
                mine,
                lambda at: at[0],
                lambda at: _reward_of(at[1]),
                text=lambda at: choice_text(data, *at),
                color=color,
                marker="circle" if len(mine) == 1 else None,
                size=4,
            )
        )
    look: Look = {"label": "best n", "width": 2.2, "opacity": 0.6}
    outline = series_of(budgets, lambda at: at.budget, lambda at: _reward_of(at.best), **look)
    # One series for each best n: the diamond has its colour.
    diamonds = [
        _frontier_series(data, best, color=color, width=2.0, size=10)
        for n, color in colors.items()
        if (best := [at for at in budgets if at.best.num_generations == n])
    ]
    if findings.surface is None:
        what = "Measured means, for without a spread between seeds there is no reward surface"
    else:
        what = (
            f"Expected reward by the reward surface, with {findings.frontier.confidence:.0%} "
            "intervals of the best n"
        )
    drawn = (outline, *series, *diamonds)
    limits = padded([y for each in drawn for y in (*each.y, *_known_ends(each))])
    return Figure(
        title="What the best n reaches, and what a fixed n would",
        caption=f"{what}. Diamonds have the colour of the n that is best there; thin lines: every "
        "n at its best B.",
        x=budget_axis(data),
        y=replace(reward_axis(data), limits=limits),
        series=drawn,
        labels=_line_labels(data, (), series, limits),
    )


FIGURES = (
    ReportFigure(name="reward", section="Reward", describe=reward_figure),
    ReportFigure(name="envelope", section="Reward", describe=envelope_figure),
)
