"""What training itself wrote of every step, thinned for a figure."""

import math
from collections.abc import Sequence

import numpy as np

from isosweep.analysis.curves import Curve, SweepData, TrainingCourse
from isosweep.files import JsonObject
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_metrics

# Points of a run's course: more are not seen in a small figure.
_MOST_POINTS = 24


def read_training(
    paths: SweepPaths, data: SweepData, names: Sequence[str]
) -> tuple[TrainingCourse, ...]:
    """Courses of the metrics `names` of all runs that wrote any, in the plan's order."""
    courses = []
    for curve in data.curves:
        files = paths.run(curve.run.run_id)
        try:
            lines = read_metrics(files.metrics, files.records)
            if lines and (curve.compute > 0).any():
                courses.append(_course(curve, lines, names))
        except (KeyError, TypeError, ValueError):
            # Metrics explain and decide nothing: none where their file is damaged.
            continue
    return tuple(courses)


def _course(curve: Curve, lines: Sequence[JsonObject], names: Sequence[str]) -> TrainingCourse:
    parts = np.array_split(np.arange(len(lines)), min(len(lines), _MOST_POINTS))
    steps = [float(np.mean([lines[i]["step"] for i in part])) for part in parts]
    # Compute goes with the steps between records.
    compute = np.interp(steps, curve.steps, curve.compute)
    values = {
        name: tuple(_mean([lines[i].get(name) for i in part]) for part in parts) for name in names
    }
    return TrainingCourse(run=curve.run, compute=tuple(compute.tolist()), values=values)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
