"""The figure of training's health: what optimisation itself reports, over compute, run by run."""

from collections.abc import Sequence

import numpy as np

from isosweep.analysis.curves import SweepData, TrainingCourse
from isosweep.analysis.figures.style import (
    Figure,
    LeftOut,
    compute_axis,
    evenly_chosen,
    finish,
    generation_colors,
    lines,
    panels,
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
    colors = generation_colors(data.generations)
    every = panels(len(moving))
    for axes, metric in zip(every, moving, strict=True):
        courses = evenly_chosen(written[metric], _MOST_RUNS)
        spent = [float(c) for course in courses for c in course.compute if c > 0]
        compute_axis(axes, data.plan.budget_unit, min(spent), max(spent))
        title, unit, _ = _METRICS[metric]
        axes.set_title(_capital(title))
        axes.set_ylabel(unit)
        for n, color in colors.items():
            mine = [
                (c.compute, np.array(c.values[metric], dtype=float), f"{c.run.run_id}, n = {n}")
                for c in courses
                if c.run.num_generations == n
            ]
            lines(axes, mine, color, width=0.8, alpha=0.6, label=f"n = {n}")
    num_runs = max(map(len, written.values()))
    some = f" ({_MOST_RUNS} are drawn)" if num_runs > _MOST_RUNS else ""
    still = [
        f"{_METRICS[m][0]} is {_values(courses, m).pop():g} in every run"
        for m, courses in written.items()
        if m not in moving and courses
    ]
    looks = [f"{_METRICS[metric][0]}: {_METRICS[metric][2]}" for metric in moving]
    about = ". ".join(_capital(look) for look in [*looks, *still])
    caption = f"{num_runs} runs{some}; means over stretches of steps. {about}."
    return finish(every[0], "What training reports of itself", caption)


def _values(courses: Sequence[TrainingCourse], metric: str) -> set[float]:
    return {v for c in courses for v in c.values[metric] if v is not None}


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
