"""Learning curves and the sigmoids that are fitted to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.axes import (
    amount,
    compute_axis,
    evenly_chosen,
    generation_colors,
    reward_axis,
    round_ticks,
)
from isosweep.analysis.figures.description import (
    DOTS,
    NO_BUDGET,
    EndLabel,
    Figure,
    LeftOut,
    ReportFigure,
    Series,
    series_of,
)
from isosweep.analysis.figures.labels import padded, spread
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Fit, sigmoid

# Compute, ascending, and reward.
_Course = tuple[FloatArray, FloatArray]
# Records of a mean over seeds, which lie at the same computes for all of them.
_MEAN_RECORDS = 24


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """What is drawn of one (n, B)."""

    series: tuple[Series, ...]
    label: EndLabel


def curves_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The smallest, the best and the largest n: mean records and fitted curve."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    found = [_drawn(data, findings, pair) for pair in _chosen(findings)]
    drawn = [each for each in found if each is not None]
    if not drawn:
        return LeftOut(reason="no run has three records past step 0")
    if not any(each.marker is None for part in drawn for each in part.series):
        return LeftOut(reason="no curve is identified")
    series = [each for part in drawn for each in part.series]
    x = [value for each in series for value in each.x]
    y = [value for each in series for value in each.y]
    limits = padded(y)
    ends = min(x) / 1.15, max(x) * 1.05
    return Figure(
        title="Where the curves go",
        caption="Smallest, best and largest n that keep their gain, at their best B, mean over "
        f"seeds ({len(drawn)} of {len(data.generations)} n). Dots: records. "
        "Full lines: fitted sigmoids.",
        x=replace(compute_axis(data), ticks=round_ticks(*ends, 8), limits=ends),
        y=replace(reward_axis(data), limits=limits),
        series=tuple(series),
        labels=spread([part.label for part in drawn], limits),
    )


def _drawn(data: SweepData, findings: Findings, pair: Pair) -> _Drawn | None:
    """None where no run has enough records."""
    color = generation_colors(data.generations)[pair.num_generations]
    kept = [c.until_collapse() for c in data.curves if Pair.of(c.run) == pair]
    long = [curve for curve in kept if (curve.compute > 0).sum() > 2]
    mean = _mean_course(long)
    if mean is None:
        return None
    compute, _ = mean
    series = [_records(data, pair, mean, color, len(long))]
    fits = [f for c, f in zip(data.curves, findings.fits, strict=True) if Pair.of(c.run) == pair]
    courses = [course for fit in fits if (course := fitted(fit, compute)) is not None]
    # Unless each seed identifies one, their mean is of those that rose.
    if fits and len(courses) == len(fits):
        course = np.mean(courses, axis=0)
        series.append(Series(x=_row(compute), y=_row(course), color=color, width=2.0))
    label = EndLabel(
        x=series[-1].x[-1], y=series[-1].y[-1], text=f"n = {pair.num_generations}", color=color
    )
    return _Drawn(series=tuple(series), label=label)


def _chosen(findings: Findings) -> list[Pair]:
    """Of the n read at the largest budget the first, the best and the last, each at its best B."""
    at = findings.frontier.budgets[-1]
    ends = {at.choices[0].num_generations, at.best.num_generations, at.choices[-1].num_generations}
    return [Pair.of(c.cell) for c in at.choices if c.num_generations in ends]


def _mean_course(curves: Sequence[Curve]) -> _Course | None:
    """The mean of all `curves`, over what they share."""
    if not curves:
        return None
    past = [(c.compute[c.compute > 0], c.reward[c.compute > 0]) for c in curves]
    first, last = max(x[0] for x, _ in past), min(x[-1] for x, _ in past)
    own = past[0][0]
    at = own[(own >= first * (1 - 1e-9)) & (own <= last * (1 + 1e-9))]
    at = np.array(evenly_chosen(at.tolist(), _MEAN_RECORDS))
    if len(at) < 2:
        return None
    rewards = [np.interp(np.log(at), np.log(x), y) for x, y in past]
    return at, np.mean(rewards, axis=0)


def _row(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))


def _records(data: SweepData, pair: Pair, mean: _Course, color: str, seeds: int) -> Series:
    about = f"n={pair.num_generations}, B={pair.problems_per_batch}, mean over {seeds} seeds\n"
    return series_of(
        zip(*map(_row, mean), strict=True),
        lambda at: at[0],
        lambda at: at[1],
        text=lambda at: f"{about}{amount(data, at[0])}\nreward {at[1]:.4f}",
        color=color,
        size=4.5,
        opacity=0.8,
        **DOTS,
    )


def fitted(fit: Fit, compute: FloatArray) -> FloatArray | None:
    """A run's sigmoid at `compute`; None where its records identify none."""
    parameters = [part.value for part in (fit.asymptote, fit.midpoint, fit.exponent) if part]
    if fit.base_reward is None or len(parameters) < 3:
        return None
    return sigmoid(compute, fit.base_reward, *parameters)


FIGURES = (ReportFigure(name="curves", section="Curves", describe=curves_figure),)
