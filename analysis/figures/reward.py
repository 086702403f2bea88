"""Figures of reward against compute, and of surer answers against more problems solved."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.style import (
    GREY,
    NO_BUDGET,
    Figure,
    LeftOut,
    bars,
    choice_words,
    compute_axis,
    finish,
    generation_colors,
    lines,
    marks,
    panels,
    reward_label,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.best_n import Choice, Frontier
from isosweep.analysis.statistics.findings import Findings
from isosweep.words.numbers import amount

# States of a run that is no reason for a mark where its records end.
_ENDED_WELL = ("finished", None)
# More runs than lines that can be told apart.
_MANY_RUNS = 60


def reward_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against compute: what is expected of every n and of the best, over single runs."""
    frontier = findings.frontier
    begun = [curve for curve in data.curves if np.any(curve.compute > 0)]
    if not begun:
        return LeftOut(reason="no run has left a record past step 0")
    best = {run.num_generations: run.problems_per_batch for run in reversed(data.plan.runs)}
    for at in frontier.budgets:
        best |= {c.num_generations: c.cell.problems_per_batch for c in at.choices}
    runs = [c for c in begun if best.get(c.run.num_generations) == c.run.problems_per_batch]
    collapsed = [(c, c.collapsed_at) for c in runs if c.collapsed_at is not None]
    stopped = [(c, len(c.compute) - 1) for c in runs if c.ending.status not in _ENDED_WELL]
    colors = generation_colors(data.generations)
    (axes,) = panels()
    spent = [float(c) for curve in begun for c in curve.compute if c > 0]
    ends = [*spent, *data.plan.budgets]
    compute_axis(axes, data.plan.budget_unit, min(ends), max(ends))
    axes.set_ylabel(reward_label(data))
    for n, color in colors.items():
        courses = [
            (c.compute[past], c.reward[past], _run_words(data, c, len(c.compute) - 1))
            for c in runs
            if c.run.num_generations == n
            for past in [c.compute > 0]
        ]
        lines(axes, courses, color, width=0.6, alpha=0.3 if len(runs) <= _MANY_RUNS else 0.15)
    _draw_expected(axes, data, frontier, colors)
    _draw_ends(axes, data, collapsed, "x", "collapsed")
    _draw_ends(axes, data, stopped, "o", "not finished")
    about = " Crosses: where a run collapsed." if collapsed else ""
    if stopped:
        states = ", ".join(sorted({str(curve.ending.status) for curve, _ in stopped}))
        about += f" Open circles: the last record of a run that has not finished ({states})."
    if unseen := len(data.curves) - len(begun):
        about += (
            f" Not drawn: {unseen} of {len(data.curves)} runs, which have no record past step 0."
        )
    return finish(
        axes,
        "Held-out reward against compute",
        f"{_about_best(findings)} Thin lines: single runs at each n's best B.{about}",
    )


def _about_best(findings: Findings) -> str:
    """What the lines of every n and the diamonds are."""
    if not findings.frontier.budgets:
        return "No run has reached a budget and kept its gain."
    if findings.surface is None:
        return (
            "Lines: measured mean of every n at its best B. Diamonds: the best one at each budget, "
            "in the colour of its n, which favours a lucky cell. Without a spread between seeds "
            "no interval is known."
        )
    return (
        "Lines: the reward to expect of every n at its best B, by the reward surface, which "
        "smooths over neighbouring n, B and budgets. Diamonds: the best n at each budget, in its "
        f"colour, with its {findings.frontier.confidence:.0%} interval."
    )


def _run_words(data: SweepData, curve: Curve, place: int) -> str:
    """A run, how far it was at a record, and its reward."""
    run, spent = curve.run, amount(float(curve.compute[place]), data.plan.budget_unit)
    return (
        f"run {run.run_id}\nn={run.num_generations}, B={run.problems_per_batch}, seed {run.seed}\n"
        f"T={curve.steps[place]}, {spent}\nreward {curve.reward[place]:.4f}"
    )


def _draw_ends(
    axes: Axes, data: SweepData, places: Sequence[tuple[Curve, int]], marker: str, label: str
) -> None:
    """Where runs collapsed or stopped early."""
    points = []
    for curve, i in places:
        # A traceback would cover the figure; the table of missing runs holds it all.
        why = ", ".join(filter(None, (curve.ending.status, (curve.ending.reason or "")[:80])))
        tip = f"{label}: {why or 'no status'}\n{_run_words(data, curve, i)}"
        points.append((float(curve.compute[i]), float(curve.reward[i]), tip))
    marks(axes, points, GREY, marker, size=7, hollow=True, label=label)


def _reward_of(choice: Choice) -> float:
    """Expected reward; the measured mean without a surface."""
    return choice.cell.mean if choice.expected is None else choice.expected


def _draw_expected(axes: Axes, data: SweepData, frontier: Frontier, colors: dict[int, str]) -> None:
    """What is expected of every n at its best B, and the best at each budget as diamonds in the
    colour of its n, with intervals."""
    for n, color in colors.items():
        mine = [(at, c) for at in frontier.budgets for c in at.choices if c.num_generations == n]
        best = [(at.budget, c, choice_words(data, at.budget, c)) for at, c in mine if at.best is c]
        if mine:
            x, y = [at.budget for at, _ in mine], [_reward_of(choice) for _, choice in mine]
            marker = "o" if len(mine) == 1 else ""
            axes.plot(x, y, color=color, lw=1.6, marker=marker, ms=4, label=f"n = {n}")
        bars(axes, [(x, *c.interval, tip) for x, c, tip in best if c.interval], color)
        marks(axes, [(x, _reward_of(c), tip) for x, c, tip in best], color, "D", size=7)
    if frontier.budgets:
        axes.plot((), (), "D", color=GREY, label="best n")


def sharpening_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """best@k against avg@k of runs at each n's best B, from before training to the last record."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    best = {Pair.of(choice.cell) for choice in findings.frontier.budgets[-1].choices}
    runs = [
        curve.until_collapse()
        for curve in data.curves
        if Pair.of(curve.run) in best and curve.counted and curve.base_reward is not None
    ]
    runs = [run for run in runs if len(run.steps) > 1 and run.samples_per_problem > 1]
    if not runs:
        return LeftOut(reason="no records count several samples of each problem")
    k, *others = {run.samples_per_problem for run in runs}
    if others:
        return LeftOut(reason="runs differ in how many samples of each problem are counted")
    (axes,) = panels()
    axes.set_xlabel(f"share of right answers (avg@{k})")
    axes.set_ylabel(f"problems solved (best@{k})")
    shares = []
    for n, color in generation_colors(data.generations).items():
        mine = [run for run in runs if run.run.num_generations == n]
        tips = [
            f"n = {n}, seed {run.run.seed}\nlost {_lost(run):.0%} of the solved" for run in mine
        ]
        ends = [(*_place(run, -1), tip) for run, tip in zip(mine, tips, strict=True)]
        starts = [_place(run, 0) for run in mine]
        courses = [((a, x), (b, y), tip) for (a, b), (x, y, tip) in zip(starts, ends, strict=True)]
        lines(axes, courses, color, width=0.8, alpha=0.5)
        marks(axes, ends, color, label=f"n = {n}")
        if mine:
            shares.append(f"{np.mean([_lost(run) for run in mine]):.0%} with n = {n}")
    return finish(
        axes,
        "Surer answers against more problems solved",
        "Lines: runs at each n's best B, from before training to their last record (dot). To the "
        "right, more of all answers are right; upwards, more problems have a right answer among "
        f"{k}. Of the problems with a right answer before training, runs end without one, by "
        f"chance too, in {', '.join(shares)}.",
    )


def _place(run: Curve, record: int) -> tuple[float, float]:
    """avg@k and best@k of a record."""
    right = run.successes[record]
    return float(right.mean() / run.samples_per_problem), float((right > 0).mean())


def _lost(run: Curve) -> float:
    """Of the problems with a right answer before training, the share that have none at the end."""
    before = run.successes[0] > 0
    return float((run.successes[-1][before] == 0).mean()) if before.any() else 0.0
