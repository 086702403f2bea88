"""The figure of reward against compute: the best n and every n at each budget, and every run."""

from collections.abc import Sequence

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.canvas import (
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    choice_words,
    compute_words,
    generation_colors,
)
from isosweep.analysis.figures.colors import GREY
from isosweep.analysis.statistics.best_n import Choice, Frontier
from isosweep.analysis.statistics.findings import Findings

# States of a run that is no reason for a mark where its records end.
_ENDED_WELL = ("finished", None)
# More runs than lines that can be told apart.
_MANY_RUNS = 60


def reward_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Reward against compute: what is expected of every n and of the best, over single runs."""
    frontier = findings.frontier
    if not any(np.any(curve.compute > 0) for curve in data.curves):
        return LeftOut(reason="no run has left a record past step 0")
    colors = generation_colors(data.generations)
    best = _best_batches(data, frontier)
    runs = [c for c in data.curves if best.get(c.run.num_generations) == c.run.problems_per_batch]
    collapsed = [(c, c.collapsed_at) for c in runs if c.collapsed_at is not None]
    stopped = [
        (c, len(c.compute) - 1)
        for c in runs
        if c.ending.status not in _ENDED_WELL and c.compute.size and c.compute[-1] > 0
    ]
    losing = _begin_to_lose(frontier)

    def draw(canvas: Canvas) -> None:
        spent = [float(value) for c in data.curves for value in c.compute if value > 0]
        ends = [*spent, *data.plan.budgets]
        canvas.compute(data.plan.budget_unit, min(ends) / 1.15, max(ends) * 1.15)
        canvas.reward(data)
        _draw_runs(canvas, data, runs, colors)
        _draw_stops(canvas, data, collapsed, colors, "x", "collapsed")
        _draw_stops(canvas, data, stopped, colors, "o", "not finished")
        _draw_expected(canvas, data, frontier, colors)
        for budget, choice in losing:
            tip = f"begins to lose: {choice_words(data, budget, choice)}"
            color = colors[choice.num_generations]
            point = (budget, _reward_of(choice), tip)
            canvas.marks([point], color, "v", size=8, hollow=True)
        if losing:
            canvas.line((), (), GREY, dash="v", mfc="none", label="begins to lose")
        if frontier.budgets:
            canvas.line((), (), GREY, dash="D", label="best n")

    about = " Crosses: where a run collapsed." if collapsed else ""
    if stopped:
        states = ", ".join(sorted({str(curve.ending.status) for curve, _ in stopped}))
        about += f" Open circles: the last record of a run that has not finished ({states})."
    if unseen := sum(not np.any(curve.compute > 0) for curve in data.curves):
        about += (
            f" Not drawn: {unseen} of {len(data.curves)} runs, which have no record past step 0."
        )
    return Figure(
        title="Held-out reward against compute",
        caption=f"{_about_best(findings, losing)} Thin lines: single runs at each n's best B."
        + about,
        draw=(draw,),
    )


def _best_batches(data: SweepData, frontier: Frontier) -> dict[int, int]:
    """The best B of every n at the largest budget at which it was read; else the smallest run."""
    best = {run.num_generations: run.problems_per_batch for run in reversed(data.plan.runs)}
    for at in frontier.budgets:
        best |= {c.num_generations: c.cell.problems_per_batch for c in at.choices}
    return best


def _about_best(findings: Findings, losing: Sequence[object]) -> str:
    """What the lines of every n, the diamonds and the triangles are."""
    if not findings.frontier.budgets:
        return "No run has reached a budget and kept its gain."
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


def _draw_runs(
    canvas: Canvas, data: SweepData, runs: Sequence[Curve], colors: dict[int, str]
) -> None:
    opacity = 0.3 if len(runs) <= _MANY_RUNS else 0.15
    for curve in runs:
        past = curve.compute > 0
        # A line through one point is not seen.
        canvas.line(
            curve.compute[past].tolist(),
            curve.reward[past].tolist(),
            colors[curve.run.num_generations],
            dash="-" if past.sum() > 1 else ".",
            width=0.6,
            alpha=opacity,
            tip=_run_words(data, curve, len(curve.compute) - 1) if past.any() else "",
        )


def _run_words(data: SweepData, curve: Curve, place: int) -> str:
    """A run, how far it was at a record, and its reward."""
    run = curve.run
    return (
        f"run {run.run_id}\nn={run.num_generations}, B={run.problems_per_batch}, seed {run.seed}\n"
        f"T={curve.steps[place]}, {compute_words(data, float(curve.compute[place]))}\n"
        f"reward {curve.reward[place]:.4f}"
    )


def _draw_stops(
    canvas: Canvas,
    data: SweepData,
    places: Sequence[tuple[Curve, int]],
    colors: dict[int, str],
    marker: str,
    label: str,
) -> None:
    """Where runs collapsed or stopped early."""
    for curve, i in places:
        # A traceback would cover the figure; the table of missing runs holds it all.
        why = ", ".join(filter(None, (curve.ending.status, (curve.ending.reason or "")[:80])))
        tip = f"{label}: {why or 'no status'}\n{_run_words(data, curve, i)}"
        point = (float(curve.compute[i]), float(curve.reward[i]), tip)
        canvas.marks([point], colors[curve.run.num_generations], marker, size=7, hollow=True)
    if places:
        canvas.line((), (), GREY, dash=marker, mfc="none", label=label)


def _reward_of(choice: Choice) -> float:
    """Expected reward; the measured mean without a surface."""
    return choice.cell.mean if choice.expected is None else choice.expected


def _draw_expected(
    canvas: Canvas, data: SweepData, frontier: Frontier, colors: dict[int, str]
) -> None:
    """What is expected of every n at its best B, and the best at each budget as diamonds in the
    colour of its n, with intervals."""
    for n, color in colors.items():
        mine = [(at, c) for at in frontier.budgets for c in at.choices if c.num_generations == n]
        if not mine:
            continue
        x, y = [at.budget for at, _ in mine], [_reward_of(choice) for _, choice in mine]
        canvas.line(x, y, color, tip=f"n = {n}", marker="o" if len(mine) == 1 else None, ms=4)
        canvas.name_end(x[-1], y[-1], f"n = {n}", color)
        for at, choice in mine:
            if at.best is choice:
                tip = f"best: {choice_words(data, at.budget, choice)}"
                if choice.interval is not None:
                    canvas.bar(at.budget, choice.interval, color, tip=tip)
                canvas.marks([(at.budget, _reward_of(choice), tip)], color, "D", size=7)


def _begin_to_lose(frontier: Frontier) -> list[tuple[float, Choice]]:
    """Where every n that may once have been the best no longer may."""
    found = []
    for n in frontier.measured:
        mine = [
            (at.budget, c) for at in frontier.budgets for c in at.choices if c.num_generations == n
        ]
        good = [i for i, (_, choice) in enumerate(mine) if choice.indistinguishable]
        if good and good[-1] + 1 < len(mine):
            found.append(mine[good[-1] + 1])
    return found


FIGURES = (ReportFigure(name="reward", section="Reward", describe=reward_figure),)
