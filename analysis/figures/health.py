"""Figures of training's health: what optimisation itself reports, over compute, run by run."""

import math
from collections.abc import Callable, Sequence

from isosweep.analysis.curves import SweepData, TrainingCourse
from isosweep.analysis.figures.axes import amount, compute_axis, evenly_chosen, generation_colors
from isosweep.analysis.figures.description import (
    BREAK,
    Axis,
    Figure,
    LeftOut,
    ReportFigure,
    Series,
    points_of,
)
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings

# By the metric's name in metrics.jsonl: the figure's, its title, and what to look for.
_METRICS = {
    "entropy": (
        "entropy",
        "Entropy of the policy",
        "nats per token",
        "An early fall to 0 ends exploration; a steep rise means that the policy breaks down.",
    ),
    "grad_norm": (
        "grad_norm",
        "Gradient norm",
        "norm before clipping",
        "Spikes come from single batches; a steady rise suggests too large a learning rate.",
    ),
    "kl": ("kl", "KL to the base model", "nats per token", "Given where the recipe penalises it."),
    "clipped_share": (
        "clipped",
        "Tokens clipped",
        "share of tokens",
        "0 with one update a batch; a large share means updates far from the sampling policy.",
    ),
    "zero_variance_share": (
        "no_signal",
        "Problems without signal",
        "share of problems",
        "Problems whose rollouts all score the same, so that they teach nothing.",
    ),
    "completion_tokens": (
        "response_length",
        "Response length",
        "tokens",
        "Growth up to the limit trains on cut answers: see the share cut off.",
    ),
    "truncated_share": (
        "cut_off",
        "Responses cut off",
        "share of rollouts",
        "More than a tenth for long means that the limit is too short.",
    ),
}
METRICS = tuple(_METRICS)
# More lines than are seen in a small figure.
_MOST_RUNS = 60


def _figure(metric: str) -> Callable[[SweepData, Findings], Figure | LeftOut]:
    _, title, unit, look = _METRICS[metric]

    def describe(data: SweepData, findings: Findings) -> Figure | LeftOut:
        del findings
        written = [c for c in data.training if any(v is not None for v in c.values[metric])]
        if not written:
            return LeftOut(reason="no run has written this metric")
        if len(values := {v for c in written for v in c.values[metric] if v is not None}) == 1:
            return LeftOut(reason=f"it is {values.pop():g} in every run")
        known = evenly_chosen(written, _MOST_RUNS)
        some = "" if len(known) == len(written) else f" of {len(written)}"
        series = [
            _runs(data, mine, metric, color, f"n = {n}")
            for n, color in generation_colors(data.generations).items()
            if (mine := [c for c in known if c.run.num_generations == n])
        ]
        return Figure(
            title=title,
            caption=f"{len(known)}{some} runs; means over stretches of steps. {look}",
            x=compute_axis(data, [float(c) for course in known for c in course.compute]),
            y=Axis(title=unit),
            series=tuple(series),
            small=True,
        )

    return describe


def _runs(
    data: SweepData, courses: Sequence[TrainingCourse], metric: str, color: str, label: str
) -> Series:
    """Runs of one n as one series, interrupted between them."""
    points: list[tuple[float, float, str]] = []
    for course in sorted(courses, key=lambda course: Pair.of(course.run)):
        for at, value in zip(course.compute, course.values[metric], strict=True):
            told = "not known" if value is None else f"{value:.4g}"
            text = f"{course.run.run_id}\n{amount(data, at)}: {told}"
            points.append((at, math.nan if value is None else value, text))
        points.append(BREAK)
    return points_of(points, label=label, color=color, width=1.1, opacity=0.6)


FIGURES = tuple(
    ReportFigure(name=name, section="Training", describe=_figure(metric))
    for metric, (name, *_) in _METRICS.items()
)
