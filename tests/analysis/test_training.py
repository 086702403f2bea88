"""What training wrote of its steps is thinned for figures, and decides nothing."""

from dataclasses import replace

import pytest

from isosweep.analysis.figures.health import METRICS, health_figure
from isosweep.analysis.figures.style import Figure
from isosweep.analysis.load import load_sweep, read_training
from isosweep.analysis.statistics.findings import find
from isosweep.store.paths import SweepPaths
from isosweep.store.records import append_metrics
from tests.analysis.conftest import CONFIG
from tests.analysis.sweeps import SMALL


def test_courses_are_means_over_stretches_and_a_damaged_file_costs_its_run(
    small: SweepPaths,
) -> None:
    first, damaged, unfinite, *_ = SMALL.runs
    for step in range(1, first.num_steps + 1):
        line = {"step": step, "time": 0.0, "entropy": float(step), "kl": None}
        append_metrics(small.run(first.run_id).metrics, 1, line)
    append_metrics(small.run(damaged.run_id).metrics, 1, {"step": 1, "entropy": "high"})
    append_metrics(small.run(unfinite.run_id).metrics, 1, {"step": 1, "entropy": None})
    data = load_sweep(small)
    assert [curve.ending.has_metrics for curve in data.curves[:4]] == [True, True, True, False]
    courses = read_training(small, data, METRICS)
    assert [course.run for course in courses] == [first, unfinite]
    entropy = courses[0].values["entropy"]
    known = [value for value in entropy if value is not None]
    assert len(known) == len(entropy) <= 24
    assert sum(known) / len(known) == pytest.approx((first.num_steps + 1) / 2, rel=0.01)
    assert set(courses[0].values["kl"]) == {None}
    assert courses[0].compute[-1] < data.curves[0].compute[-1]
    seen = replace(data, training=courses)
    figure = health_figure(seen, find(data, CONFIG))
    assert isinstance(figure, Figure)
    assert figure.caption.startswith("1 runs;")
    assert len(figure.drawn.axes) == 1
