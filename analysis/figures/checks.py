"""Figures that check the analysis itself: residuals of the fits, and compute as it was spent."""

import math
from collections.abc import Sequence

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    amount,
    budget_axis,
    compute_axis,
    generation_colors,
    level,
    record_texts,
)
from isosweep.analysis.figures.description import Axis, Figure, LeftOut, ReportFigure, Series
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Fit, sigmoid

# More points than a page draws quickly.
_MOST_POINTS = 3000


def residuals_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Records minus their own run's sigmoid, against compute."""
    pairs = [
        (curve.until_collapse(), fit)
        for curve, fit in zip(data.curves, findings.fits, strict=True)
        if fit.asymptote is not None
    ]
    if not pairs:
        return LeftOut(reason="the records identify no run's sigmoid")
    total = sum(int((curve.steps > 0).sum()) for curve, _ in pairs)
    stride = math.ceil(total / _MOST_POINTS)
    colors = generation_colors(data.generations)
    series = []
    for n, color in colors.items():
        mine = [pair for pair in pairs if pair[0].run.num_generations == n]
        points = [point for curve, fit in mine for point in _residuals(data, curve, fit)]
        if points:
            x, y, text = zip(*points[::stride], strict=True)
            series.append(
                Series(
                    x=x,
                    y=y,
                    text=text,
                    label=f"n = {n}",
                    color=color,
                    dash=None,
                    marker="circle",
                    size=4,
                    opacity=0.7,
                )
            )
    x_axis = compute_axis(data)
    ends = x_axis.limits or (1.0, 1.0)
    some = "" if stride == 1 else f" One record in {stride} is shown."
    return Figure(
        title="What the fitted curves leave over",
        caption=f"Records minus the sigmoid of their own run, for {len(pairs)} of "
        f"{len(data.curves)} runs: those whose records identify one. Points that lie on one side "
        f"of zero over a stretch of compute would show that the form is wrong.{some}",
        x=x_axis,
        y=Axis(title="reward - fitted curve"),
        series=(level(ends, 0.0, None), *series),
    )


def _residuals(data: SweepData, curve: Curve, fit: Fit) -> list[tuple[float, float, str]]:
    """Compute, residual and hover text of the records past step 0."""
    past = np.flatnonzero(curve.steps > 0)
    compute, reward = curve.compute[past], curve.reward[past]
    left = reward - _fitted(compute, fit)
    texts = record_texts(data, curve, past)
    return [
        (x, y, f"{text}\nfit {y:+.4f} off")
        for x, y, text in zip(compute.tolist(), left.tolist(), texts, strict=True)
    ]


def _fitted(compute: FloatArray, fit: Fit) -> FloatArray:
    """The fitted curve; nan where the fit is not identified."""
    if (
        fit.base_reward is None
        or fit.asymptote is None
        or fit.midpoint is None
        or fit.exponent is None
    ):
        return np.full_like(compute, np.nan)
    return sigmoid(
        compute, fit.base_reward, fit.asymptote.value, fit.midpoint.value, fit.exponent.value
    )


def compute_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """Measured over planned compute of every cell, against its budget."""
    del findings
    if all(reading.measured_compute is None for reading in data.readings):
        return LeftOut(reason="no run has reached a budget yet")
    generations = data.generations
    colors = generation_colors(generations)
    series = []
    for i, n in enumerate(generations):
        # Cells of one budget lie side by side, ordered by n.
        shift = 1.0 + 0.04 * (i - (len(generations) - 1) / 2)
        cells = [
            (r.cell, r.measured_compute)
            for r in data.readings
            if r.cell.num_generations == n and r.measured_compute is not None
        ]
        if not cells:
            continue
        series.append(
            Series(
                x=tuple(cell.budget * shift for cell, _ in cells),
                y=tuple(measured / cell.planned_compute for cell, measured in cells),
                text=tuple(
                    f"run {c.run_id}\nn={n}, B={c.problems_per_batch}, seed {c.seed}\n"
                    f"T={c.num_steps}, {amount(data, measured)} of "
                    f"{amount(data, c.planned_compute)} planned"
                    for c, measured in cells
                ),
                label=f"n = {n}",
                color=colors[n],
                dash=None,
                marker="circle",
                opacity=0.8,
            )
        )
    axis = budget_axis(data)
    series.append(level(axis.limits or (1.0, 1.0), 1.0, "as planned"))
    return Figure(
        title="Measured against planned compute",
        caption="One point a cell, shifted sideways by n: compute of the record nearest to the "
        "budget over the compute that the plan foresaw.",
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
