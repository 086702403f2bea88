"""The figure of training's health: what optimisation itself reports, over compute, run by run."""

import math
from collections.abc import Sequence
from functools import partial

from isosweep.analysis.curves import SweepData, TrainingCourse
from isosweep.analysis.figures.canvas import (
    Canvas,
    Figure,
    LeftOut,
    ReportFigure,
    evenly_chosen,
    generation_colors,
)
from isosweep.analysis.statistics.findings import Findings

# By the metric's name in metrics.jsonl: the panel's title, its unit, and what to look for.
_METRICS = {
    "entropy": (
        "entropy of the policy",
        "nats per token",
        "an early fall to 0 ends exploration; a steep rise means that the policy breaks down",
    ),
    "grad_norm": (
        "gradient norm",
        "before clipping",
        "spikes come from single batches; a steady rise suggests too large a learning rate",
    ),
    "kl": ("KL to the base model", "nats per token", "given where the recipe penalises it"),
    "clipped_share": (
        "tokens clipped",
        "share of tokens",
        "0 with one update a batch; a large share means updates far from the sampling policy",
    ),
    "zero_variance_share": (
        "problems without signal",
        "share of problems",
        "their rollouts all score the same, so that they teach nothing",
    ),
    "completion_tokens": (
        "response length",
        "tokens",
        "growth up to the limit trains on cut answers",
    ),
    "truncated_share": (
        "responses cut off",
        "share of rollouts",
        "more than a tenth for long means that the limit is too short",
    ),
}
METRICS = tuple(_METRICS)
# More lines than are seen in a small panel.
_MOST_RUNS = 60


def health_figure(data: SweepData, findings: Findings) -> Figure | LeftOut:
    """A panel for each metric that changes."""
    del findings
    written = {
        metric: [c for c in data.training if any(v is not None for v in c.values[metric])]
        for metric in METRICS
    }
    moving = [m for m, courses in written.items() if len(_values(courses, m)) > 1]
    if not moving:
        return LeftOut(reason="no run has written a metric that changes")
    shown = {metric: evenly_chosen(written[metric], _MOST_RUNS) for metric in moving}
    num_runs = max(map(len, written.values()))
    some = f" ({_MOST_RUNS} are drawn)" if num_runs > _MOST_RUNS else ""
    still = [
        f"{_METRICS[m][0]} is {_values(courses, m).pop():g} in every run"
        for m, courses in written.items()
        if m not in moving and courses
    ]
    looks = [f"{_METRICS[metric][0]}: {_METRICS[metric][2]}" for metric in moving]
    return Figure(
        title="What training reports of itself",
        caption=f"{num_runs} runs{some}; means over stretches of steps. "
        + ". ".join(_capital(look) for look in [*looks, *still])
        + ".",
        draw=tuple(partial(_draw, data, metric, shown[metric]) for metric in moving),
    )


def _values(courses: Sequence[TrainingCourse], metric: str) -> set[float]:
    return {v for c in courses for v in c.values[metric] if v is not None}


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _draw(data: SweepData, metric: str, courses: Sequence[TrainingCourse], canvas: Canvas) -> None:
    title, unit, _ = _METRICS[metric]
    spent = [float(c) for course in courses for c in course.compute if c > 0]
    canvas.compute(data.plan.budget_unit, min(spent) / 1.15, max(spent) * 1.15)
    canvas.axes.set_title(_capital(title))
    canvas.axes.set_ylabel(unit)
    colors = generation_colors(data.generations)
    named: set[int] = set()
    for course in sorted(courses, key=lambda course: course.run.num_generations):
        n = course.run.num_generations
        values = [math.nan if v is None else v for v in course.values[metric]]
        canvas.line(
            *(course.compute, values, colors[n]),
            width=0.8,
            alpha=0.6,
            label=None if n in named else f"n = {n}",
            tip=f"{course.run.run_id}, n = {n}",
        )
        named.add(n)


FIGURES = (ReportFigure(name="health", section="Training", describe=health_figure),)
