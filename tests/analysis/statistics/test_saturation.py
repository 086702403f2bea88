"""Planted answers are recovered, and what the data do not show is refused."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.curves import CellReading
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics import judgement
from isosweep.analysis.statistics.frontier import fit_frontier
from isosweep.analysis.statistics.means import gather_means
from isosweep.analysis.statistics.saturation import Saturation, find_saturation
from isosweep.analysis.statistics.surface import fit_surface
from isosweep.analysis.statistics.verdict import OpenEnd
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import BUDGETS, LONG, RewardAt, make_plan, peaked, write_sweep

FIRST = BUDGETS[0]


def judge(
    root: Path,
    reward: RewardAt,
    *,
    noise: float = 0.004,
    margin: float = 0.02,
    seeds: tuple[int, ...] = (0, 1, 2),
    generations: tuple[int, ...] = (2, 4, 8, 16, 32),
    budgets: tuple[float, ...] = BUDGETS,
) -> Saturation:
    plan = make_plan(seeds=seeds, generations=generations, budgets=budgets)
    paths = write_sweep(root, reward, plan=plan, noise=noise)
    config = AnalysisConfig(name="default", margin=margin)
    return judgement.judge(load_sweep(paths), config)[2]


def judge_readings(readings: list[CellReading]) -> Saturation:
    means = gather_means(readings)
    assert means is not None
    surface = fit_surface(means)
    return find_saturation(fit_frontier(readings, means, surface, 0.9), surface, 0.02, 0.5)


def test_planted_saturation_is_detected(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: min(8.0, 2 * C / FIRST)), budgets=LONG)
    assert saturation.verdict == "saturated"
    assert saturation.plateau is not None
    assert saturation.settles_at is not None
    assert saturation.plateau.low < 8 < saturation.plateau.high < 12
    # n* is within half a doubling of 8 from 5.7e6 on.
    assert 4e6 < saturation.settles_at.low < 5.7e6 < saturation.settles_at.high < 1e7
    assert saturation.growth is not None
    assert saturation.growth.rate.low < 0 < saturation.growth.rate.high < 0.5
    assert [at.best for at in saturation.optima] == [2, 4, 8, 8, 8]


def test_noise_is_no_evidence_that_n_does_not_matter() -> None:
    # One of two seeds is bad in all its runs; of what is gained, n = 2 loses 0.08 at the end.
    worth = {2: 0.12, 4: 0.16, 8: 0.2, 16: 0.17, 32: 0.13}
    plan = make_plan(seeds=(0, 1))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        own = {run.run_id: 0.01 * rng.standard_normal() for run in plan.runs}
        readings = []
        for cell in plan.cells:
            gained = worth[cell.num_generations] - (0.3 if cell.seed else 0.0) + own[cell.run_id]
            reward = 0.4 + BUDGETS.index(cell.budget) / 4 * gained
            reward += 0.008 * rng.standard_normal()
            readings.append(
                CellReading(cell=cell, reward=reward, measured_compute=cell.budget, reading="exact")
            )
        found = judge_readings(readings)
        assert found.verdict != "n does not matter"
        assert 2 not in found.harmless


def test_planted_growth_inside_the_grid_is_growing(tmp_path: Path) -> None:
    saturation = judge(
        tmp_path, peaked(lambda C: 2 * C / FIRST), generations=(2, 4, 8, 16, 32, 64, 128)
    )
    assert saturation.verdict == "growing"
    assert saturation.growth is not None
    # A doubling of n for every doubling of compute.
    assert saturation.growth.rate.low < 1 / np.log10(2) < saturation.growth.rate.high
    assert saturation.reason.kind == "growing"


def test_growth_up_to_the_edge_is_growing_and_censored_there(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: 2 * C / FIRST))
    assert saturation.verdict == "growing"
    assert saturation.reason.end == OpenEnd(kind="above", edge=32)
    assert saturation.optima[-1].candidates == (32,)
    assert saturation.optima[-1].right_censored
    assert not saturation.optima[0].left_censored  # n = 2 is GRPO's own bound


def test_growth_that_settles_at_the_edge_of_the_grid_is_no_saturation(tmp_path: Path) -> None:
    best = {2: 4.0, 4: 8.0}
    saturation = judge(
        tmp_path,
        peaked(lambda C: best.get(round(C / 1e6), 16.0)),
        generations=(4, 8, 16),
        budgets=LONG,
    )
    assert saturation.verdict == "grew"
    assert saturation.reason.end == OpenEnd(kind="above", edge=16)
    assert saturation.plateau is None


def test_a_best_n_at_the_edge_at_every_budget_is_refused(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: 64.0))
    assert saturation.verdict == "not identified"
    assert (saturation.reason.kind, saturation.reason.edge) == ("edge", 32)
    assert saturation.reason.end == OpenEnd(kind="above", edge=32)


def test_an_interior_best_n_that_stays_is_constant(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: 8.0))
    assert (saturation.verdict, saturation.harmless) == ("constant", (8,))
    assert (saturation.reason.kind, saturation.reason.margin) == ("constant", 0.02)


def drawn(path: tuple[float, ...], spread: tuple[float, ...]) -> Saturation:
    """Of draws of log2 n* around `path`, at the budgets of BUDGETS."""
    plan, rng = make_plan(), np.random.default_rng(0)
    readings = [
        CellReading(
            cell=cell,
            reward=0.5 + 0.01 * rng.standard_normal(),
            measured_compute=cell.budget,
            reading="exact",
        )
        for cell in plan.cells
    ]
    means = gather_means(readings)
    assert means is not None
    fitted = fit_surface(means)
    best = np.array(path) + np.array(spread) * rng.standard_normal((1000, len(path)))
    away = np.abs(fitted.log2_n - best.clip(1, 5)[:, :, None])
    surface = replace(fitted, draws=-0.1 * away[..., None])
    return find_saturation(fit_frontier(readings, means, surface, 0.9), surface, 0.02, 0.5)


def test_a_best_n_that_rises_and_returns_is_not_constant() -> None:
    rests, returns = (2.4, 2.4, 2.4, 2.4, 2.4), (2.4, 2.8, 4.2, 2.8, 2.4)
    sure, unsure = (0.3, 0.3, 0.3, 0.3, 0.3), (0.3, 0.3, 0.9, 0.3, 0.3)
    assert drawn(rests, sure).verdict == "constant"
    # A peak of which nothing is known is no evidence against it.
    assert drawn(rests, unsure).verdict == "constant"
    saturation = drawn(returns, unsure)
    assert saturation.verdict == "not identified"
    assert saturation.growth is not None
    assert saturation.growth.unchanged > 0.9
    assert 0.5 < saturation.growth.moved < 0.95
    assert saturation.reason.kind == "undecided"
    assert (saturation.growth.fell > saturation.growth.grew, saturation.growth.peak) == (True, 8e6)


def test_an_n_that_does_not_matter_is_told_apart_from_one_that_stays(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: 8.0, fall=0.0), noise=0.002)
    assert saturation.verdict == "n does not matter"
    assert (saturation.reason.kind, saturation.reason.margin) == ("harmless", 0.02)


def test_n_that_were_never_run_are_not_said_not_to_matter(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, peaked(lambda C: 8.0, fall=0.0), noise=0.002)
    sweep, config = load_sweep(paths), AnalysisConfig(name="default", margin=0.02)
    ns = {cell.num_generations for cell in sweep.plan.cells}
    assert judgement.judge(sweep, config)[2].verdict == "n does not matter"
    for fallen, end in (
        (None, OpenEnd(kind="missing", edge=16, n=(32,))),
        # These were run: it is no use to run them again.
        (0.1, None),
    ):
        lacking = [
            replace(r, reward=None, reading="missing", fallen=fallen)
            if r.cell.num_generations == max(ns)
            else r
            for r in sweep.readings
        ]
        _, frontier, found = judgement.judge(replace(sweep, readings=tuple(lacking)), config)
        assert frontier.unread == (max(ns),)
        assert found.verdict != "n does not matter"
        assert (found.reason.end, found.reason.lacking) == (end, ())


def test_n_that_lack_records_are_not_beyond_the_grid(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2), budgets=LONG)
    paths = write_sweep(tmp_path, peaked(lambda C: 4 * C / LONG[0]), plan=plan)
    sweep, config = load_sweep(paths), AnalysisConfig(name="default", margin=0.02)
    whole = judgement.judge(sweep, config)[2]
    assert whole.verdict == "growing"
    assert whole.reason.end == OpenEnd(kind="above", edge=32)
    # In mid-course, of n = 32 nothing yet, or nothing at the larger budgets.
    for lacking in (LONG, LONG[3:]):
        readings = tuple(
            replace(r, reward=None, reading="missing")
            if r.cell.num_generations == 32 and r.cell.budget in lacking
            else r
            for r in sweep.readings
        )
        found = judgement.judge(replace(sweep, readings=readings), config)[2]
        assert found.reason.end == OpenEnd(kind="missing", edge=16, n=(32,))


@pytest.mark.parametrize(
    ("behind", "edge", "censored"),
    [
        ((2, 4, 8), 32, (True, False)),
        ((16, 32), 8, (False, True)),
        # Far from where n* is.
        ((2,), None, (False, False)),
    ],
)
def test_n_that_are_behind_are_named_where_the_best_n_may_be_among_them(
    behind: tuple[int, ...], edge: int | None, censored: tuple[bool, bool], tmp_path: Path
) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2), budgets=LONG)
    sweep = load_sweep(write_sweep(tmp_path, peaked(lambda C: 8.0), plan=plan))
    readings = tuple(
        replace(r, reward=None, reading="missing")
        if r.cell.num_generations in behind and r.cell.budget == LONG[-1]
        else r
        for r in sweep.readings
    )
    config = AnalysisConfig(name="default", margin=0.02)
    _, frontier, found = judgement.judge(replace(sweep, readings=readings), config)
    assert frontier.budgets[-1].missing == behind
    assert found.verdict == ("constant" if edge is None else "not identified")
    assert found.reason.end == (edge and OpenEnd(kind="missing", edge=edge, n=behind))
    last = found.optima[-1]
    assert (last.left_censored, last.right_censored) == censored


def test_an_end_that_fell_is_not_asked_for_again(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2), budgets=LONG)
    sweep = load_sweep(write_sweep(tmp_path, peaked(lambda C: 4 * C / LONG[0]), plan=plan))
    readings = tuple(
        replace(r, reward=None, reading="collapsed", fallen=0.0)
        if r.cell.num_generations == 32
        else r
        for r in sweep.readings
    )
    config = AnalysisConfig(name="default", margin=0.02)
    _, frontier, found = judgement.judge(replace(sweep, readings=readings), config)
    assert (frontier.unread, frontier.fell) == ((32,), (32,))
    assert found.reason.end == OpenEnd(kind="above", edge=16, n=(32,))


def near(best: dict[float, int], fall: float, noise: float, seed: int) -> Saturation:
    """Of runs of the n within a doubling of the best at each budget."""
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2, 3), budgets=tuple(best))
    true, rng = peaked(lambda C: best[C], fall), np.random.default_rng(seed)
    return judge_readings(
        [
            CellReading(
                cell=cell,
                reward=true(cell.budget, cell.num_generations, 4) + noise * rng.standard_normal(),
                measured_compute=cell.budget,
                reading="exact",
            )
            for cell in plan.cells
            if best[cell.budget] / 2 <= cell.num_generations <= best[cell.budget] * 2
        ]
    )


def test_n_left_out_at_larger_budgets_are_not_called_harmless_there() -> None:
    # No two n that are compared differ by more than 0.01; n = 2 loses 0.09 at the end.
    best = dict(zip(LONG, (4, 4, 8, 16, 16), strict=True))
    verdicts = {near(best, fall=0.01, noise=0.002, seed=seed).verdict for seed in range(5)}
    assert verdicts == {"growing", "grew"}


def test_n_left_out_at_larger_budgets_may_be_known_from_smaller_ones() -> None:
    best = dict(zip(LONG, (4, 4, 8, 16, 16), strict=True))
    assert near(best, fall=0.0, noise=0.004, seed=0).verdict == "n does not matter"


def test_what_leaves_open_whether_n_matters_is_named() -> None:
    best = dict(zip(LONG, (4, 4, 8, 16, 16), strict=True))
    saturation = near(best, fall=0.0, noise=0.02, seed=0)
    assert saturation.verdict == "not identified"
    assert (saturation.reason.end, saturation.reason.lacking) == (None, (2, 4))


@pytest.mark.parametrize("growth", [0.0, 1.0])
def test_differences_within_noise_are_refused(tmp_path: Path, growth: float) -> None:
    reward = peaked(lambda C: 4 * (C / FIRST) ** growth, fall=0.002)
    saturation = judge(tmp_path, reward, noise=0.1)
    assert saturation.verdict == "not identified"
    assert all(at.candidates == (2, 4, 8, 16, 32) for at in saturation.optima)


def test_one_seed_identifies_nothing(tmp_path: Path) -> None:
    saturation = judge(tmp_path, peaked(lambda C: min(8.0, 2 * C / FIRST)), seeds=(0,))
    assert saturation.verdict == "not identified"
    assert saturation.reason.kind == "one seed"
    assert all(o.candidates == (2, 4, 8, 16, 32) for o in saturation.optima)


def test_two_budgets_or_two_n_are_too_few(tmp_path: Path) -> None:
    reward = peaked(lambda C: min(8.0, 2 * C / FIRST))
    few = judge(tmp_path / "a", reward, budgets=BUDGETS[:2]).reason
    assert (few.kind, few.num_budgets) == ("few budgets", 2)
    few = judge(tmp_path / "b", reward, generations=(2, 4)).reason
    assert (few.kind, few.measured) == ("few n", (2, 4))


def test_a_best_n_that_falls_after_a_peak_fell(tmp_path: Path) -> None:
    # In millions: 1, 2, 4, 8, 16.
    best = {1: 2.0, 2: 8.0, 4: 16.0, 8: 16.0, 16: 4.0}
    saturation = judge(tmp_path, peaked(lambda C: best.get(round(C / 1e6), 4.0)))
    assert saturation.verdict == "fell"
    assert saturation.growth is not None
    assert saturation.growth.fell > 0.97


def test_growth_that_pauses_before_the_end_is_not_saturated(tmp_path: Path) -> None:
    best = {1: 2.0, 2: 4.0, 4: 4.0, 8: 4.0, 16: 16.0}
    saturation = judge(tmp_path, peaked(lambda C: best.get(round(C / 1e6), 16.0)))
    assert saturation.verdict in ("growing", "grew")


@pytest.mark.slow
def test_false_claims_from_pure_noise_are_rare() -> None:
    """40 sweeps in which n has no effect, two seeds each."""
    plan = make_plan(seeds=(0, 1), batches=(4, 8))
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(40):
        readings = [
            CellReading(
                cell=cell,
                reward=0.5 + 0.03 * rng.standard_normal(),
                measured_compute=cell.budget,
                reading="exact",
            )
            for cell in plan.cells
        ]
        means = gather_means(readings)
        assert means is not None
        surface = fit_surface(means)
        frontier = fit_frontier(readings, means, surface, 0.9)
        verdicts.append(find_saturation(frontier, surface, 0.02, 0.5).verdict)
    assert sum(v in ("growing", "saturated", "grew", "fell") for v in verdicts) <= 1


def late_starts(tmp_path: Path, reward: RewardAt) -> Saturation:
    """Of a sweep at the two smallest budgets of which n = 2 and 4 alone were run."""
    plan = make_plan(generations=(2, 4, 8, 16, 32), budgets=LONG)
    cells = tuple(
        cell for cell in plan.cells if cell.budget >= LONG[2] or cell.num_generations <= 4
    )
    paths = write_sweep(tmp_path, reward, plan=replace(plan, cells=cells))
    config = AnalysisConfig(name="default", margin=0.02)
    return judgement.judge(load_sweep(paths), config)[2]


def test_larger_n_that_small_budgets_lack_are_no_growth(tmp_path: Path) -> None:
    saturation = late_starts(tmp_path, peaked(lambda C: 16.0, fall=0.02))
    assert saturation.growth is not None
    assert saturation.growth.grew < 0.1
    assert saturation.verdict == "steady"
    assert saturation.growth.steady_from == 8e6
    first = saturation.optima[0]
    assert first.right_censored
    assert first.words.endswith("4 or more]")


def test_an_n_that_grows_by_less_than_a_doubling_over_few_budgets_is_not_steady(
    tmp_path: Path,
) -> None:
    decades = math.log10(LONG[-1] / LONG[2])
    saturation = late_starts(
        tmp_path,
        peaked(lambda C: 10.0 * (C / LONG[2]) ** (0.8 * math.log10(2) / decades), fall=0.02),
    )
    assert saturation.growth is not None
    assert saturation.growth.unchanged > 0.9
    assert saturation.growth.stopped < 0.9
    assert saturation.verdict == "not identified"
