"""Figures of reward against compute: single runs, and the best n at every budget."""

from collections.abc import Iterable, Sequence

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    budget_axis,
    choice_text,
    compute_axis,
    generation_colors,
    record_texts,
    reward_axis,
)
from isosweep.analysis.figures.colors import GREY, INK
from isosweep.analysis.figures.description import (
    Dash,
    Figure,
    LeftOut,
    Marker,
    ReportFigure,
    Series,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier, Choice, Frontier

_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")
# More values of B than dashes that can be distinguished; more runs than lines that can.
_MOST_DASHES = len(_DASHES)
_MANY_RUNS = 60
# States of a run that is no reason for a mark where its records end.
_ENDED_WELL = ("finished", None)


def reward_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against compute: every run, the mean over seeds, and the frontier.

    With many B the mean lines would hide each other: then there is one for each n, at its best B.
    """
    frontier = findings.frontier
    if not any(np.any(curve.compute > 0) for curve in data.curves):
        return LeftOut(reason="no run has left a record past step 0")
    generations, batches = data.generations, data.batches
    colors = generation_colors(generations)
    crowded = len(batches) > _MOST_DASHES
    dashes = {B: "solid" if crowded else _DASHES[i] for i, B in enumerate(batches)}
    series = [_run_series(data, curve, colors, dashes) for curve in data.curves]
    trained = {c.run.num_generations for c in data.curves if np.any(c.compute > 0)}
    for n in generations:
        if n not in trained:
            continue
        if crowded:
            series.append(_mean_series(frontier, n, None, colors[n], "solid"))
        else:
            series += [_mean_series(frontier, n, B, colors[n], dashes[B]) for B in batches]
        series.append(Series(x=(), y=(), label=f"n = {n}", color=colors[n], width=2.0))
    if 1 < len(batches) <= _MOST_DASHES:
        series += [
            Series(x=(), y=(), label=f"B = {B}", color=GREY, dash=dashes[B], width=2.0)
            for B in batches
        ]
    marked, about_marks = _marks(data, colors)
    if frontier.budgets:
        series.append(_frontier_series(data, frontier.budgets, label="best n"))
    thick = "for each n its best B, mean over seeds" if crowded else "mean over seeds"
    return Figure(
        title="Held-out reward against compute",
        caption=f"Thin lines: single runs. Thick lines: {thick}, at the budgets. "
        f"{_about_best(findings)}{about_marks}",
        x=compute_axis(data),
        y=reward_axis(data),
        series=(*series, *marked),
    )


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


def _run_series(
    data: SweepData, curve: Curve, colors: dict[int, str], dashes: dict[int, Dash]
) -> Series:
    past = np.flatnonzero(curve.compute > 0)
    return Series(
        x=tuple(curve.compute[past].tolist()),
        y=tuple(curve.reward[past].tolist()),
        text=record_texts(data, curve, past),
        color=colors[curve.run.num_generations],
        dash=dashes[curve.run.problems_per_batch],
        width=0.8,
        opacity=0.4 if len(data.curves) <= _MANY_RUNS else 0.15,
        # A line through one point is not seen.
        marker="circle" if len(past) == 1 else None,
        size=4,
    )


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
        words += " Crosses: where a run collapsed; no mean counts it from there on."
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
                Series(
                    x=tuple(float(curve.compute[i]) for curve, i in mine),
                    y=tuple(float(curve.reward[i]) for curve, i in mine),
                    text=tuple(
                        f"{label}: {_reason(curve)}\n{record_texts(data, curve, [i])[0]}"
                        for curve, i in mine
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


def _mean_series(frontier: Frontier, n: int, B: int | None, color: str, dash: Dash) -> Series:
    """Mean reward over seeds of (n, B) at every budget; of the best B where B is None."""
    cells = [
        (at.budget, cell)
        for at in frontier.budgets
        for cell in ([choice.cell for choice in at.choices] if B is None else at.cells)
        if cell.num_generations == n and B in (None, cell.problems_per_batch)
    ]
    return Series(
        x=tuple(budget for budget, _ in cells),
        y=tuple(cell.mean for _, cell in cells),
        text=tuple(
            f"mean over {c.num_seeds} seeds\nn={n}, B={c.problems_per_batch}, T={c.num_steps}\n"
            f"reward {c.mean:.4f}"
            for _, c in cells
        ),
        color=color,
        dash=dash,
        width=2.0,
        marker="circle",
        size=4,
    )


def _reward_of(choice: Choice) -> float:
    """Expected reward; the measured mean without a surface."""
    return choice.cell.mean if choice.expected is None else choice.expected


def _frontier_series(
    data: SweepData,
    budgets: Iterable[BudgetFrontier],
    *,
    label: str | None = None,
    color: str = INK,
    width: float = 1.4,
    size: float = 7.0,
) -> Series:
    """The best choice at each budget, as diamonds with intervals."""
    best = [(at.budget, at.best) for at in budgets]
    return Series(
        x=tuple(budget for budget, _ in best),
        y=tuple(_reward_of(choice) for _, choice in best),
        low=tuple(choice.interval[0] if choice.interval else None for _, choice in best),
        high=tuple(choice.interval[1] if choice.interval else None for _, choice in best),
        text=tuple(f"best: {choice_text(data, budget, choice)}" for budget, choice in best),
        label=label,
        color=color,
        dash=None,
        width=width,
        marker="diamond",
        size=size,
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
            Series(
                x=tuple(budget for budget, _ in mine),
                y=tuple(_reward_of(choice) for _, choice in mine),
                text=tuple(choice_text(data, budget, choice) for budget, choice in mine),
                label=f"n = {n}",
                color=color,
                marker="circle" if len(mine) == 1 else None,
                size=4,
            )
        )
    outline = Series(
        x=tuple(at.budget for at in budgets),
        y=tuple(_reward_of(at.best) for at in budgets),
        label="best n",
        width=2.2,
        opacity=0.6,
    )
    # One series for each best n: the diamond has its colour.
    diamonds = [
        _frontier_series(
            data,
            [at for at in budgets if at.best.num_generations == n],
            color=color,
            width=2.0,
            size=10,
        )
        for n, color in colors.items()
        if any(at.best.num_generations == n for at in budgets)
    ]
    if findings.surface is None:
        what = "Measured means, for without a spread between seeds there is no reward surface"
    else:
        what = (
            f"Expected reward by the reward surface, with {findings.frontier.confidence:.0%} "
            "intervals of the best n"
        )
    return Figure(
        title="What the best n reaches, and what a fixed n would",
        caption=f"{what}. Diamonds have the colour of the n that is best there; thin lines: every "
        "n at its best B.",
        x=budget_axis(data),
        y=reward_axis(data),
        series=(outline, *series, *diamonds),
    )


FIGURES = (
    ReportFigure(name="reward", section="Verdict", describe=reward_figure),
    ReportFigure(name="envelope", section="Verdict", describe=envelope_figure),
)
