"""The best B against compute where n x B is fixed, with a planted course of n*."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.best_n import best_batch_figure
from isosweep.analysis.figures.style import Figure, LeftOut
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.best_batch import BatchLaw, fixed_products
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from tests.analysis.statistics.planted import known
from tests.analysis.sweeps import LONG, RewardAt, make_plan, peaked, write_sweep

CONFIG = AnalysisConfig()
GENERATIONS = (2, 4, 8, 16, 32, 64)


def fixed(*products: int, seeds: Sequence[int] = (0, 1, 2)) -> Plan:
    """n from 2 to 64, and the B that each product leaves it."""
    batches = sorted({product // n for product in products for n in GENERATIONS})
    plan = make_plan(generations=GENERATIONS, batches=batches, seeds=seeds, budgets=LONG)
    return replace(
        plan,
        cells=tuple(c for c in plan.cells if c.num_generations * c.problems_per_batch in products),
        runs=tuple(r for r in plan.runs if r.num_generations * r.problems_per_batch in products),
    )


def climbing(slope: float, product: int = 64) -> RewardAt:
    """n* from 4 on (n x B = 64), `slope` doublings a decade; twice as large at four times that."""

    def reward(compute: float, n: int, B: int) -> float:
        grown = slope * math.log10(compute / LONG[0])
        best = 2 + grown + 0.5 * math.log2(n * B / product)
        rise = 0.05 * math.log2(compute / LONG[0])
        return 0.4 + rise - 0.01 * (math.log2(n) - best) ** 2

    return reward


def analysed(root: Path, reward: RewardAt, plan: Plan) -> tuple[SweepData, Findings]:
    data = load_sweep(write_sweep(root, reward, plan=plan))
    return data, find(data, CONFIG)


def only(findings: Findings) -> BatchLaw:
    (law,) = findings.batch_laws
    return law


def test_the_best_batch_is_what_the_best_n_leaves_of_the_product(tmp_path: Path) -> None:
    _, findings = analysed(tmp_path, climbing(1.5), fixed(64))
    law = only(findings)
    for at, n in zip(law.optima, findings.frontier.optima, strict=True):
        of_batch, of_n = known(at.interval), known(n.n_star)
        ends = of_batch.low * of_n.high, of_batch.high * of_n.low
        assert ends == pytest.approx((64, 64))
        assert (of_batch.open_below, of_batch.open_above) == (of_n.open_above, of_n.open_below)
    slope = known(law.slope)
    assert slope.high - 0.6 < slope.low <= -1.5 <= slope.high


def test_every_product_has_a_law_of_its_own(tmp_path: Path) -> None:
    data, findings = analysed(tmp_path, climbing(1.0), fixed(64, 256))
    first, second = findings.batch_laws
    assert (first.completions_per_step, second.completions_per_step) == (64, 256)
    for law, start in ((first, 16), (second, 32)):
        interval = known(law.optima[0].interval)
        assert interval.low * 0.9 <= start <= interval.high * 1.1
        assert known(law.slope).median == pytest.approx(-1.0, abs=0.3)
    figure = best_batch_figure(data, findings)
    assert isinstance(figure, Figure)
    labels = figure.drawn.axes[0].get_legend_handles_labels()[1]
    assert labels == ["n x B = 64", "n x B = 256"]


def test_an_optimum_at_the_edge_gives_no_slope(tmp_path: Path) -> None:
    data, findings = analysed(tmp_path, peaked(lambda C: 256.0, fall=0.01), fixed(64))
    law = only(findings)
    assert all(known(at.interval).open_below for at in law.optima)
    assert law.slope is None
    assert (law.lacks, law.open_at) == ("open", 8e6)
    figure = best_batch_figure(data, findings)
    assert isinstance(figure, Figure)
    (line,) = [each for each in figure.drawn.axes[0].get_lines() if each.get_marker() == "v"]
    assert len(np.asarray(line.get_ydata())) == len(law.optima)


def test_other_grids_have_no_law(tmp_path: Path) -> None:
    assert fixed_products(make_plan(batches=(2, 4, 8)).cells) == ()
    assert fixed_products(fixed(64, 256).cells) == (64, 256)
    plan = make_plan(generations=(2, 4, 8), seeds=(0, 1))
    data, findings = analysed(tmp_path, climbing(1.0), plan)
    assert findings.batch_laws == ()
    assert isinstance(best_batch_figure(data, findings), LeftOut)
