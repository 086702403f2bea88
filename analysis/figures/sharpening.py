"""The figure of what training does to single problems: surer answers, or more problems solved."""

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.canvas import (
    NO_BUDGET,
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    generation_colors,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings


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
    colors = generation_colors(data.generations)

    def draw(canvas: Canvas) -> None:
        canvas.axes.set_xlabel(f"share of right answers (avg@{k})")
        canvas.axes.set_ylabel(f"problems solved (best@{k})")
        named: set[int] = set()
        for run in sorted(runs, key=lambda run: run.run.num_generations):
            n = run.run.num_generations
            label = None if n in named else f"n = {n}"
            (before, solved), (after, still) = _place(run, 0), _place(run, -1)
            lost = f"lost {_lost(run):.0%} of the problems solved before"
            canvas.line((before, after), (solved, still), colors[n], width=0.8, alpha=0.5)
            point = (after, still, f"n = {n}, seed {run.run.seed}\n{lost}")
            canvas.marks([point], colors[n], label=label)
            named.add(n)

    of_n: dict[int, list[float]] = {}
    for run in runs:
        of_n.setdefault(run.run.num_generations, []).append(_lost(run))
    shares = ", ".join(f"{np.mean(of_n[n]):.0%} with n = {n}" for n in sorted(of_n))
    return Figure(
        title="Surer answers against more problems solved",
        caption=f"Lines: runs at each n's best B, from before training to their last record (dot). "
        "To the right, more of all answers are right; upwards, more problems have a right answer "
        f"among {k}. Of the problems with a right answer before training, runs end without one, "
        f"by chance too, in {shares}.",
        draw=(draw,),
    )


def _place(run: Curve, record: int) -> tuple[float, float]:
    """avg@k and best@k of a record."""
    right = run.successes[record]
    return float(right.mean() / run.samples_per_problem), float((right > 0).mean())


def _lost(run: Curve) -> float:
    """Of the problems with a right answer before training, the share that have none at the end."""
    before = run.successes[0] > 0
    return float((run.successes[-1][before] == 0).mean()) if before.any() else 0.0


FIGURES = (ReportFigure(name="sharpening", section="Reward", describe=sharpening_figure),)
