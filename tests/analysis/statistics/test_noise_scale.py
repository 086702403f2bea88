"""The noise scale at a budget, its interval, and when n* is said to go with it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.conclude import conclude
from isosweep.analysis.curves import Curve, Measured
from isosweep.analysis.figures.description import Figure, LeftOut
from isosweep.analysis.figures.draw_matplotlib import dark
from isosweep.analysis.figures.draw_plotly import to_plotly
from isosweep.analysis.figures.optima import noise_figure
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.noise_scale import (
    compare,
    noise_at,
    noise_scale,
    rank_agreement,
    ratio_interval,
)
from isosweep.analysis.statistics.optima import Range
from isosweep.analysis.tables import noise_table
from isosweep.gradient_noise import GradientNoise
from tests.analysis.conftest import CONFIG, Analysed


def measured(
    compute: float, gradient: float | None, *, updates: int = 1, within: float = 8.0
) -> Measured:
    between, within = (None, 5.0) if gradient is None else (0.5, within)
    noise = GradientNoise(
        updates=updates,
        num_generations=4,
        gradient=gradient,
        between_problems=between,
        within_problems=within,
    )
    return Measured(compute=compute, noise=noise)


@pytest.fixture
def curves(full: Analysed) -> tuple[Curve, ...]:
    """Of three runs that measured nothing."""
    return full.data.curves[:3]


def with_noise(curve: Curve, *noise: Measured) -> Curve:
    return replace(curve, noise=noise)


def test_the_noise_at_a_budget_is_a_ratio_of_means_over_its_last_records(
    curves: Sequence[Curve],
) -> None:
    far, later, untold = measured(10, 100.0), measured(200, 100.0), measured(90, None)
    near = measured(50, 0.1), measured(100, 0.4, updates=2)
    ran = with_noise(curves[0], far, near[0]), with_noise(curves[1], near[1], later, untold)
    at = noise_at(100, ran, problems_per_batch=4, confidence=0.9)
    assert (at.updates, at.runs) == (3, 2)
    assert at.critical_rollouts == pytest.approx(24 / 0.9)
    assert at.predicted_n == pytest.approx(24 / 0.9 / 4)
    assert at.crossing_n == pytest.approx(16)
    # Two runs have no spread to speak of.
    assert (at.predicted_low, at.predicted_high) == (None, None)


def test_an_estimate_that_is_not_positive_has_no_scale(curves: Sequence[Curve]) -> None:
    at = noise_at(100, [with_noise(curves[0], measured(100, -0.1))], 4, 0.9)
    assert (at.critical_rollouts, at.predicted_n, at.crossing_n) == (None, None, 16.0)
    assert noise_at(100, curves, 4, 0.9).updates == 0


def test_what_a_collapsed_run_measures_counts_for_nothing(curves: Sequence[Curve]) -> None:
    first = int(np.flatnonzero(curves[0].compute > 0)[0])
    at_collapse = float(curves[0].compute[first])
    fell = replace(
        with_noise(curves[0], measured(at_collapse * 0.9, 0.5), measured(at_collapse, 0.1)),
        collapsed_at=first,
    )
    assert noise_at(at_collapse, [fell], 4, 0.9).critical_rollouts == pytest.approx(8 / 0.5)


def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says() -> None:
    """Fieller's is exact where both are normal, however noisy the denominator."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(1000):
        above, below = random.normal(12.0, 4.0, 8), random.normal(1.0, 1.2, 8)
        low, high = ratio_interval(above, below, 0.9)
        inside += (low or 0.0) <= 12.0 <= (math.inf if high is None else high)
    # Where the numbers decide nothing, every ratio is inside.
    assert 870 <= inside <= 950


def test_a_denominator_that_may_be_zero_leaves_the_upper_end_open() -> None:
    above = np.array([10.0, 11, 9, 10])
    low, high = ratio_interval(above, np.array([3.0, -2, 2, -1]), 0.9)
    assert low is not None
    assert low > 2
    assert high is None
    low, high = ratio_interval(above * 1e-30, np.array([1.1, 0.9, 1.0, 1]) * 1e20, 0.9)
    assert low is not None
    assert high is not None
    assert low < 1e-49 < high
    # A squared gradient below 0, and numbers that are all noise: nothing is known.
    assert ratio_interval(above, np.array([-3.0, -3.1, -2.9, -3]), 0.9) == (None, None)
    assert ratio_interval(above - 10, np.array([3.0, -2, 2, -3]), 0.9) == (None, None)


@pytest.mark.parametrize(
    ("predicted", "found", "kind"),
    [
        ((20, 40), Range(interval=interval, open_below=False, open_above=False), kind)
        for interval, kind in (
            (Interval(median=16, low=8, high=24), "compatible"),
            (Interval(median=8, low=4, high=16), "too large"),
            (Interval(median=64, low=48, high=128), "too small"),
            (Interval(median=16, low=4, high=128), "cannot tell"),
        )
    ]
    + [
        ((20, 40), Range(interval=Interval(median=8, low=4, high=16), **ends), kind)
        for ends, kind in (
            ({"open_below": True, "open_above": False}, "too large"),
            # n* may lie there, which no run shows.
            ({"open_below": False, "open_above": True}, "cannot tell"),
        )
    ]
    + [
        (ends, Range(interval=Interval(median=8, low=4, high=16), **at), kind)
        for at in ({"open_below": False, "open_above": False},)
        for ends, kind in (
            ((20, None), "too large"),
            ((1, None), "cannot tell"),
            ((None, None), "cannot tell"),
            ((1, 2), "too small"),
        )
    ]
    + [
        (
            (1, 2),
            Range(interval=Interval(median=8, low=4, high=16), open_below=True, open_above=False),
            "cannot tell",
        ),
        ((20, 40), None, "cannot tell"),
    ],
)
def test_a_prediction_is_refuted_only_by_an_n_star_that_lies_clear_of_it(
    curves: Sequence[Curve],
    predicted: tuple[float | None, float | None],
    found: Range | None,
    kind: str,
) -> None:
    low, high = predicted
    at = replace(noise_at(100, curves, 4, 0.9), predicted_low=low, predicted_high=high)
    assert compare(at, found, (4, 16, 128)) == kind


def test_n_goes_with_the_noise_where_chance_would_seldom_have_it_so() -> None:
    found = [4.0, 8, 16, 16.5, 32]
    agreed = rank_agreement(list(enumerate(found)))
    assert (agreed.kind, agreed.tau) == ("agrees", 1.0)
    assert agreed.chance == pytest.approx(2 / 120)
    assert rank_agreement([(-i, n) for i, n in enumerate(found)]).kind == "disagrees"
    # Of four budgets chance has one order in twelve.
    assert rank_agreement(list(enumerate(found[:4]))).kind == "cannot tell"
    assert rank_agreement([(i, 4.0) for i in range(5)]).kind == "cannot tell"
    assert rank_agreement([(1.0, 2.0)]).tau is None


def test_answer_table_and_figure_have_the_same_numbers(full: Analysed) -> None:
    data = full.data
    # The critical batch rises with compute, and lies apart between runs.
    curves = tuple(
        with_noise(
            curve,
            *(measured(at, 0.3 + 0.02 * i, within=0.3 * at**0.2) for at in curve.compute[1:]),
        )
        for i, curve in enumerate(data.curves)
    )
    noisy = replace(data, curves=curves)
    findings = find(noisy, CONFIG)
    noise = conclude(noisy, findings).noise
    assert noise is not None
    assert noise == findings.noise
    assert noise == noise_scale(curves, findings.frontier, findings.saturation.optima)
    rows = noise_table(noisy, findings).rows
    assert [row.at for row in rows] == list(noise.budgets)
    assert [row.optimum for row in rows] == list(findings.saturation.optima)
    assert [at.compared for at in noise.budgets] == [
        compare(row.at, row.optimum.of("best"), budget.measured)
        for row, budget in zip(rows, findings.frontier.budgets, strict=True)
    ]
    # Nearer budgets have the same updates.
    reached = [at.budget for at in noise.budgets if at.predicted_n is not None]
    apart = [at for at in reached if math.log(reached[-1] / at, 4) % 1 < 1e-6]
    assert 1 < noise.agreement.budgets == len(apart) < len(reached)
    assert "too large" in {at.compared for at in noise.budgets}
    known = [at.predicted_n for at in noise.budgets if at.predicted_n is not None]
    assert len(known) > 1
    assert known == sorted(known)
    drawn = noise_figure(noisy, findings)
    assert isinstance(drawn, Figure)
    (line,) = (each for each in drawn.series if each.label == "n predicted by noise")
    assert line.y == tuple(known)
    to_plotly(dark(drawn))
    # Without any noise nothing is said of it.
    assert full.findings.noise is None
    assert not noise_table(data, full.findings).rows
    assert isinstance(noise_figure(data, full.findings), LeftOut)
