"""Figures that check the analysis itself: residuals of the fits, and compute as it was spent."""

import math
from collections.abc import Sequence

import numpy as np

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    compute_axis,
    generation_colors,
    level,
    record_texts,
)
from isosweep.analysis.figures.curves import fitted
from isosweep.analysis.figures.description import (
    DOTS,
    NO_BUDGET,
    Axis,
    Figure,
    LeftOut,
    Point,
    ReportFigure,
    Series,
    points_of,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Fit

# More points than a page draws quickly.
_MOST_POINTS = 3000


def residuals_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Records minus their own run's sigmoid, against compute."""
    points: dict[int, list[Point]] = {n: [] for n in data.generations}
    num_fitted = total = 0
    for whole, fit in zip(data.curves, findings.fits, strict=True):
        if fit.asymptote is not None:
            found = _residuals(data, whole.until_collapse(), fit)
            points[whole.run.num_generations] += found
            num_fitted, total = num_fitted + 1, total + len(found)
    if not num_fitted:
        return LeftOut(reason="the records identify no run's sigmoid")
    stride = math.ceil(total / _MOST_POINTS)
    series = [
        points_of(points[n][::stride], label=f"n = {n}", color=color, size=4, opacity=0.7, **DOTS)
        for n, color in generation_colors(data.generations).items()
        if points[n]
    ]
    x_axis = compute_axis(data)
    ends = x_axis.limits or (1.0, 1.0)
    some = "" if stride == 1 else f" One record in {stride} is shown."
    return Figure(
        title="What the fitted curves leave over",
        caption=f"Records minus the sigmoid of their own run, for {num_fitted} of "
        f"{len(data.curves)} runs: those whose records identify one. Points that lie on one side "
        f"of zero over a stretch of compute would show that the form is wrong.{some}",
        x=x_axis,
        y=Axis(title="reward - fitted curve"),
        series=(level(ends, 0.0, None), *series),
    )


def _residuals(data: SweepData, curve: Curve, fit: Fit) -> list[Point]:
    """Compute, residual and hover text of the records past step 0."""
    past = np.flatnonzero(curve.steps > 0)
    compute, course = curve.compute[past], fitted(fit, curve.compute[past])
    left = curve.reward[past] - (math.nan if course is None else course)
    texts = record_texts(data, curve, past)
    return [
        (x, y, f"{text}\nfit {y:+.4f} off")
        for x, y, text in zip(compute.tolist(), left.tolist(), texts, strict=True)
    ]


def compute_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Measured over planned compute of every cell, against its budget.

    At the budgets that runs go to: at those that are read between them lies no record.
    """
    del findings
    milestones = {run.run_id: run.milestones for run in data.plan.runs}
    cells = [
        (r.cell, r.measured_compute)
        for r in data.readings
        if r.measured_compute is not None and r.cell.budget in milestones[r.cell.run_id]
    ]
    if not cells:
        return NO_BUDGET

    def dots(i: int, n: int, color: str) -> Series:
        # Cells of one budget lie side by side, ordered by n.
        shift = 1.0 + 0.04 * (i - (len(data.generations) - 1) / 2)
        return points_of(
            [
                (
                    cell.budget * shift,
                    measured / cell.planned_compute,
                    f"run {cell.run_id}\nn={n}, B={cell.problems_per_batch}, seed {cell.seed}\n"
                    f"T={cell.num_steps}, {amount(data, measured)} of "
                    f"{amount(data, cell.planned_compute)} planned",
                )
                for cell, measured in cells
                if cell.num_generations == n
            ],
            label=f"n = {n}",
            color=color,
            opacity=0.8,
            **DOTS,
        )

    known = {cell.num_generations for cell, _ in cells}
    colors = enumerate(generation_colors(data.generations).items())
    series = [dots(i, n, color) for i, (n, color) in colors if n in known]
    axis = budget_axis(data)
    series.append(level(axis.limits or (1.0, 1.0), 1.0, "as planned"))
    return Figure(
        title="Measured against planned compute",
        caption="One point for each run at each of its budgets, shifted sideways by n: compute of "
        "the record nearest to the budget over the compute that the plan foresaw.",
        x=axis,
        y=Axis(title="measured / planned compute", limits=_around_one(series)),
        series=tuple(series),
    )


def _around_one(series: Sequence[Series]) -> tuple[float, float]:
    """Limits around all points, and half a per cent to either side of 1 at least."""
    values = [value for drawn in series for value in drawn.y]
    low, high = min([*values, 0.995]), max([*values, 1.005])
    margin = 0.05 * (high - low)
    return low - margin, high + margin


FIGURES = (
    ReportFigure(name="residuals", section="Fits", describe=residuals_figure),
    ReportFigure(name="compute", section="Cells", describe=compute_figure),
)
