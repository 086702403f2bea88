"""Learning curves and the sigmoids that are fitted to them."""

from collections.abc import Sequence

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.figures.style import (
    NO_BUDGET,
    Figure,
    LeftOut,
    compute_axis,
    evenly_chosen,
    finish,
    generation_colors,
    marks,
    panels,
    reward_label,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.learning_curve import Fit, sigmoid
from isosweep.words.numbers import amount

# Records of a mean over seeds, which lie at the same computes for all of them.
_MEAN_RECORDS = 24


def curves_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """The smallest, the best and the largest n: mean records and fitted curve."""
    if not findings.frontier.budgets:
        return NO_BUDGET
    at = findings.frontier.budgets[-1]
    chosen = {
        at.choices[0].num_generations,
        at.best.num_generations,
        at.choices[-1].num_generations,
    }
    courses = {}
    for choice in at.choices:
        if choice.num_generations in chosen:
            pair = Pair.of(choice.cell)
            kept = [c.until_collapse() for c in data.curves if Pair.of(c.run) == pair]
            if mean := _mean_course([c for c in kept if (c.compute > 0).sum() > 2]):
                courses[pair] = (*mean, _mean_fit(data, findings, pair, mean[0]))
    if not courses:
        return LeftOut(reason="no run has three records past step 0")
    if all(fitted is None for *_, fitted in courses.values()):
        return LeftOut(reason="no curve is identified")
    (axes,) = panels()
    ends = [float(value) for compute, *_ in courses.values() for value in compute]
    compute_axis(axes, data.plan.budget_unit, min(ends), max(ends))
    axes.set_ylabel(reward_label(data))
    colors = generation_colors(data.generations)
    for pair, (compute, reward, fitted) in courses.items():
        color, about = colors[pair.num_generations], "n={}, B={}, mean over seeds".format(*pair)
        points = [
            (x, y, f"{about}\n{amount(x, data.plan.budget_unit)}\nreward {y:.4f}")
            for x, y in zip(compute.tolist(), reward.tolist(), strict=True)
        ]
        marks(axes, points, color, size=3.5, label=f"n = {pair.num_generations}")
        if fitted is not None:
            axes.plot(compute, fitted, color=color, lw=2)
    return finish(
        axes,
        "Where the curves go",
        "Smallest, best and largest n that keep their gain, at their best B, mean over seeds "
        f"({len(courses)} of {len(data.generations)} n). Dots: records. Full lines: fitted "
        "sigmoids.",
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


def _mean_fit(
    data: SweepData, findings: Findings, pair: Pair, compute: FloatArray
) -> FloatArray | None:
    """The mean of the sigmoids of all seeds; None unless each seed identifies one, for the mean of
    some would be that of those that rose."""
    runs = {curve.run.run_id for curve in data.curves if Pair.of(curve.run) == pair}
    fitted = [_fitted(fit, compute) for fit in findings.fits if fit.run_id in runs]
    known = [each for each in fitted if each is not None]
    return np.mean(known, axis=0) if known and len(known) == len(fitted) else None


def _fitted(fit: Fit, compute: FloatArray) -> FloatArray | None:
    """A run's sigmoid at `compute`; None where its records identify none."""
    parameters = [part.value for part in fit.parameters if part]
    if fit.base_reward is None or len(parameters) < 3:
        return None
    return sigmoid(compute, fit.base_reward, *parameters)
