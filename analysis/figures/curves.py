"""Learning curves and the sigmoids that are fitted to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.canvas import (
    NO_BUDGET,
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    compute_words,
    evenly_chosen,
    generation_colors,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.learning_curve import Fit, sigmoid

# Records of a mean over seeds, which lie at the same computes for all of them.
_MEAN_RECORDS = 24


@dataclass(frozen=True, kw_only=True)
class _Course:
    """The mean of an (n, B) over seeds; all (records,). `fitted`: None unless each seed identifies
    a sigmoid, for the mean of some would be that of those that rose."""

    pair: Pair
    num_seeds: int
    compute: FloatArray
    reward: FloatArray
    fitted: FloatArray | None


def curves_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The smallest, the best and the largest n: mean records and fitted curve."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    found = [_course(data, findings, pair) for pair in _chosen(findings)]
    courses = [each for each in found if each is not None]
    if not courses:
        return LeftOut(reason="no run has three records past step 0")
    if all(each.fitted is None for each in courses):
        return LeftOut(reason="no curve is identified")

    def draw(canvas: Canvas) -> None:
        ends = [float(value) for each in courses for value in each.compute]
        canvas.compute(data.plan.budget_unit, min(ends) / 1.15, max(ends) * 1.05)
        canvas.reward(data)
        for each in courses:
            _draw_course(canvas, data, each)

    return Figure(
        title="Where the curves go",
        caption="Smallest, best and largest n that keep their gain, at their best B, mean over "
        f"seeds ({len(courses)} of {len(data.generations)} n). Dots: records. "
        "Full lines: fitted sigmoids.",
        draw=(draw,),
    )


def _draw_course(canvas: Canvas, data: SweepData, course: _Course) -> None:
    color = generation_colors(data.generations)[course.pair.num_generations]
    about = "n={}, B={}".format(*course.pair) + f", mean over {course.num_seeds} seeds\n"
    canvas.marks(
        [
            (x, y, f"{about}{compute_words(data, x)}\nreward {y:.4f}")
            for x, y in zip(course.compute.tolist(), course.reward.tolist(), strict=True)
        ],
        color,
        size=3.5,
    )
    line = course.reward if course.fitted is None else course.fitted
    if course.fitted is not None:
        canvas.line(course.compute.tolist(), line.tolist(), color, width=2.0)
    end = float(course.compute[-1]), float(line[-1])
    canvas.name_end(*end, f"n = {course.pair.num_generations}", color)


def _chosen(findings: Findings) -> list[Pair]:
    """Of the n read at the largest budget the first, the best and the last, each at its best B."""
    at = findings.frontier.budgets[-1]
    ends = {at.choices[0].num_generations, at.best.num_generations, at.choices[-1].num_generations}
    return [Pair.of(c.cell) for c in at.choices if c.num_generations in ends]


def _course(data: SweepData, findings: Findings, pair: Pair) -> _Course | None:
    """None where no run has enough records."""
    kept = [c.until_collapse() for c in data.curves if Pair.of(c.run) == pair]
    long = [curve for curve in kept if (curve.compute > 0).sum() > 2]
    mean = _mean_course(long)
    if mean is None:
        return None
    compute, reward = mean
    fits = [f for c, f in zip(data.curves, findings.fits, strict=True) if Pair.of(c.run) == pair]
    fitted = [course for fit in fits if (course := _fitted(fit, compute)) is not None]
    return _Course(
        pair=pair,
        num_seeds=len(long),
        compute=compute,
        reward=reward,
        fitted=np.mean(fitted, axis=0) if fits and len(fitted) == len(fits) else None,
    )


def _mean_course(curves: Sequence[Curve]) -> tuple[FloatArray, FloatArray] | None:
    """Compute, ascending, and the mean reward of all `curves`, over what they share."""
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


def _fitted(fit: Fit, compute: FloatArray) -> FloatArray | None:
    """A run's sigmoid at `compute`; None where its records identify none."""
    parameters = [part.value for part in (fit.asymptote, fit.midpoint, fit.exponent) if part]
    if fit.base_reward is None or len(parameters) < 3:
        return None
    return sigmoid(compute, fit.base_reward, *parameters)


FIGURES = (ReportFigure(name="curves", section="Curves", describe=curves_figure),)
