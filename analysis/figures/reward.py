"""The figure of reward against compute: the best n and every n at each budget, and every run."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    amount,
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
_EXPECTED, _BEST_BATCH = "expected of every n", "every run, best B of each n"
# More runs than lines that can be told apart.
_MANY_RUNS = 60


def reward_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against compute: first what is expected of every n and of the best, then every run
    and the means over seeds, with several B one B at a time."""
    frontier = findings.frontier
    if not any(np.any(curve.compute > 0) for curve in data.curves):
        return LeftOut(reason="no run has left a record past step 0")
    colors = generation_colors(data.generations)
    of_batches = [f"B = {B}" for B in data.batches] if len(data.batches) > 1 else []
    groups = (*([_EXPECTED] if frontier.budgets else []), _BEST_BATCH, *of_batches)
    best = _best_batches(data, frontier)
    thin, thick = [], []
    for pair, curves in by_pair(data.curves, lambda curve: curve.run).items():
        own: tuple[str, ...] = (f"B = {pair.problems_per_batch}",) if of_batches else ()
        if best.get(pair.num_generations) == pair.problems_per_batch:
            own = (_BEST_BATCH, *own)
        color = colors[pair.num_generations]
        thin += _runs_series(data, curves, color, own)
        thick.append(_mean_series(data, frontier, pair, color, own))
    ends, about_ends = _marks(data, colors, groups)
    expected = _expected_series(data, frontier, colors)
    losing = _losing_series(data, frontier, colors)
    diamonds = _best_series(data, frontier.budgets, colors)
    drawn = (*thin, *thick, *expected, *losing, *ends, *diamonds)
    return Figure(
        title="Held-out reward against compute",
        caption=f"{_about_best(findings, losing)} Every run: thin lines are single runs, thick "
        f"ones their mean over seeds.{about_ends}",
        x=compute_axis(data),
        # Of what is shown: single runs go down where means do not.
        y=reward_axis(data),
        series=drawn,
        labels=_line_labels(data, drawn, thin, [*thick, *expected[1:]]),
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
    data: SweepData, drawn: Sequence[Series], thin: Sequence[Series], thick: Sequence[Series]
) -> tuple[EndLabel, ...]:
    """`n = 8` at the end of every mean; of an n that has none, at the end of its runs."""
    names = {color: f"n = {n}" for n, color in generation_colors(data.generations).items()}
    lines = [line for line in thick if line.x]
    told = {(line.color, line.groups) for line in lines}
    lines += [line for line in thin if (line.color, line.groups) not in told]
    labels: list[EndLabel] = []
    for group in dict.fromkeys(name for line in lines for name in line.groups):
        mine = [
            EndLabel(
                x=line.x[-1],
                y=line.y[-1],
                text=names[line.color],
                color=line.color,
                groups=(group,),
            )
            for line in lines
            if group in line.groups
        ]
        shown = [each for each in drawn if not each.groups or group in each.groups]
        labels += spread(mine, padded([y for s in shown for y in (*s.y, *_known_ends(s))]))
    return tuple(labels)


def _about_best(findings: Findings, losing: Sequence[Series]) -> str:
    """What the lines of every n, the diamonds and the triangles are."""
    if not findings.frontier.budgets:
        return "No run has reached a budget yet."
    if findings.surface is None:
        return (
            "Lines: measured mean of every n at its best B. Diamonds: the best one at each budget, "
            "in the colour of its n, which favours a lucky cell. Without a spread between seeds "
            "no interval is known."
        )
    text = (
        "Lines: the reward to expect of every n at its best B, by the reward surface, which "
        "smooths over neighbouring n, B and budgets. Diamonds: the best n at each budget, in its "
        f"colour, with its {findings.frontier.confidence:.0%} interval."
    )
    if losing:
        text += " Triangles: from this budget on, an n that may have been the best is not any more."
    return text


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


def _marks(
    data: SweepData, colors: dict[int, str], groups: tuple[str, ...]
) -> tuple[list[Series], str]:
    """Marks where runs collapsed or stopped early, beside single runs, and the words that explain
    them."""
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
        words += (
            f" Not drawn: {unseen} of {len(data.curves)} runs, which have no record past step 0."
        )
    of_runs = tuple(name for name in groups if name != _EXPECTED)
    return [replace(each, groups=of_runs) for each in series], words


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


def _expected_series(data: SweepData, frontier: Frontier, colors: dict[int, str]) -> list[Series]:
    """What is expected of every n at its best B, and over it the best at each budget."""
    budgets = frontier.budgets
    look: Look = {"width": 3.0, "opacity": 0.35, "groups": (_EXPECTED,)}
    outline = [(at.budget, at.best) for at in budgets]
    series = [series_of(outline, lambda at: at[0], lambda at: _reward_of(at[1]), **look)]
    for n, color in colors.items():
        mine = [(at.budget, c) for at in budgets for c in at.choices if c.num_generations == n]
        series.append(
            series_of(
                mine,
                lambda at: at[0],
                lambda at: _reward_of(at[1]),
                text=lambda at: choice_text(data, *at),
                color=color,
                marker="circle" if len(mine) == 1 else None,
                width=1.4,
                size=4,
                groups=(_EXPECTED,),
            )
        )
    return [each for each in series if each.x]


def _losing_series(data: SweepData, frontier: Frontier, colors: dict[int, str]) -> list[Series]:
    """Where every n that may once have been the best no longer may, and the legend's entry."""
    found = []
    for n, color in colors.items():
        mine = [(at.budget, c) for at in frontier.budgets for c in at.choices if n == _n_of(c)]
        good = [i for i, (_, choice) in enumerate(mine) if choice.indistinguishable]
        if good and good[-1] + 1 < len(mine):
            found.append((*mine[good[-1] + 1], color))
    if not found:
        return []
    look: Look = {"dash": None, "marker": "triangle-down-open", "size": 10, "groups": (_EXPECTED,)}
    legend = Series(x=(), y=(), label="begins to lose", color=GREY, **look)
    marks = [
        series_of(
            [(budget, choice)],
            lambda at: at[0],
            lambda at: _reward_of(at[1]),
            text=lambda at: f"begins to lose: {choice_text(data, *at)}",
            color=color,
            **look,
        )
        for budget, choice, color in found
    ]
    return [legend, *marks]


def _n_of(choice: Choice) -> int:
    return choice.num_generations


def _best_series(
    data: SweepData, budgets: Sequence[BudgetFrontier], colors: dict[int, str]
) -> list[Series]:
    """The best choice at each budget, as diamonds in the colour of its n, with intervals."""
    look: Look = {"dash": None, "marker": "diamond", "size": 9}
    series = [
        series_of(
            [at for at in budgets if at.best.num_generations == n],
            lambda at: at.budget,
            lambda at: _reward_of(at.best),
            ends=lambda at: at.best.interval,
            text=lambda at: f"best: {choice_text(data, at.budget, at.best)}",
            color=color,
            width=1.6,
            **look,
        )
        for n, color in colors.items()
    ]
    drawn = [each for each in series if each.x]
    return [Series(x=(), y=(), label="best n", color=GREY, **look), *drawn] if drawn else []


FIGURES = (ReportFigure(name="reward", section="Reward", describe=reward_figure),)
