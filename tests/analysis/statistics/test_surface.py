"""The reward surface against planted rewards."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.means import Means
from isosweep.analysis.statistics.surface import fit_surface
from isosweep.plan.cells import Cell
from tests.analysis.statistics.planted import means_of, read
from tests.analysis.sweeps import BUDGETS, make_plan, peaked


def of_one_spread(means: Means) -> FloatArray:
    """The noise as it would be with the same spread between seeds at every n and B."""
    own = means.spread / means.seed_sd[means.budget]
    return np.asarray(means.noise / np.outer(own, own))


def test_the_covariance_between_budgets_is_that_of_the_seeds() -> None:
    plan = make_plan(seeds=range(200), budgets=BUDGETS[:3])
    means = means_of(read(plan, peaked(lambda C: 8.0), noise=0.01, luck=0.02))
    assert means.degrees_of_freedom == 5 * 199
    assert means.seed_sd == pytest.approx(np.full(3, np.hypot(0.01, 0.02)), rel=0.05)
    # Between budgets only the luck is shared; cells share nothing.
    same_run = means.noise[:3, :3] * 200
    assert same_run[0, 1] == pytest.approx(0.02**2, rel=0.1)
    assert means.noise[0, 3] == 0


def test_a_cell_with_fewer_seeds_is_trusted_less() -> None:
    plan = make_plan(seeds=range(4), budgets=BUDGETS[:1])
    # Of these seeds none favours large n, or small ones.
    readings = read(plan, peaked(lambda C: 8.0), noise=0.01, seed=1)
    fewer = [r for r in readings if r.cell.num_generations != 8 or r.cell.seed == 0]
    noise = np.diag(of_one_spread(means_of(fewer)))
    assert noise[2] == pytest.approx(4 * noise[0])


def test_budgets_share_the_luck_of_the_seeds_that_reached_both() -> None:
    plan = make_plan(seeds=range(4), budgets=BUDGETS[:2])
    readings = read(plan, peaked(lambda C: 8.0), noise=0.001, luck=0.02)
    kept = [r for r in readings if r.cell.budget == BUDGETS[0] or r.cell.seed == 0]
    kept += [r for r in readings if r.cell.num_generations == 2 and r not in kept]
    noise = of_one_spread(means_of(kept))
    # n = 2 has four seeds at both budgets, n = 4 one of its four at the second: for both a quarter
    # of one seed's covariance, 4 / (4 x 4) and 1 / (4 x 1).
    assert noise[0, 1] > 0
    assert noise[2, 3] == pytest.approx(noise[0, 1], rel=1e-9)
    assert noise[3, 3] == pytest.approx(4 * noise[1, 1], rel=1e-9)


def test_means_far_apart_are_as_sure_as_their_seeds_make_them() -> None:
    plan = make_plan(seeds=range(100), generations=(2, 2**20), budgets=BUDGETS[:1])
    means = means_of(read(plan, lambda C, n, B: 0.3 if n == 2 else 0.6, noise=0.1))
    surface = fit_surface(means)
    spread = surface.by_n[:, 0, surface.column(2)].std()
    assert spread == pytest.approx(means.spread[0] / np.sqrt(100), rel=0.1)
    assert means.spread[0] == pytest.approx(0.1, rel=0.15)


def test_the_surface_passes_through_precise_means_and_finds_the_optimum() -> None:
    plan = make_plan(seeds=(0, 1, 2), batches=(4, 8))
    reward = peaked(lambda C: 2 * (C / BUDGETS[0]) ** 0.75)
    means = means_of(read(plan, reward, noise=0.0005))
    surface = fit_surface(means)
    assert surface.batches == (4, 8)
    assert np.array_equal(surface.draws, fit_surface(means).draws)
    for k, budget in enumerate(BUDGETS):
        for n in (2, 4, 8, 16, 32):
            drawn = surface.draws[:, k, surface.column(n), :]
            assert drawn.mean(axis=0) == pytest.approx(reward(budget, n, 4), abs=0.002)
        truth = 1 + 0.75 * np.log2(budget / BUDGETS[0])
        assert surface.best_n.log2_n[:, k].mean() == pytest.approx(truth, abs=0.15)


def test_what_was_not_measured_is_less_sure() -> None:
    plan = make_plan(seeds=(0, 1, 2), generations=(2, 4, 8, 128, 256))
    surface = fit_surface(means_of(read(plan, peaked(lambda C: 8.0, fall=0.01), noise=0.002)))
    spread = surface.by_n[:, 0].std(axis=0)
    between = np.abs(surface.log2_n - 5).argmin()
    assert spread[between] > 2 * spread[surface.column(8)]


def test_where_every_n_has_its_own_batch_that_is_no_axis() -> None:
    """As in grid=fix_batch: n x B is the same everywhere."""
    plan = make_plan(generations=(2, 4, 8, 16, 32), batches=(2, 4, 8, 16, 32))
    kept = [c for c in plan.cells if c.num_generations * c.problems_per_batch == 64]
    readings = read(replace(plan, cells=tuple(kept)), peaked(lambda C: 8.0), noise=0.003)
    surface = fit_surface(means_of(readings))
    assert len(surface.batches) == 1
    assert surface.supported.all()
    # Of n between those measured something is known, as with one B for all.
    low, high = np.quantile(surface.best_n.log2_n[:, -1], [0.05, 0.95])
    assert 2.5 < low <= 3 <= high < 3.5
    assert surface.at_cells(surface.draws[:, 0], kept[:2]).shape == (len(surface.draws), 2)


def test_nothing_is_concluded_where_no_run_was() -> None:
    """Rewards rise with B, and large n were run with the small B alone."""

    def reward(compute: float, n: int, B: int) -> float:
        return peaked(lambda C: 8.0, fall=0.01)(compute, n, B) + 0.05 * (B > 4)

    plan = make_plan(generations=(2, 4, 8, 16, 32), batches=(4, 8))
    kept = [c for c in plan.cells if c.problems_per_batch == 4 or c.num_generations <= 4]
    surface = fit_surface(means_of(read(replace(plan, cells=tuple(kept)), reward, noise=0.003)))
    inside = surface.log2_n <= 2
    assert np.array_equal(surface.supported[-1, :, 1], inside)
    # The best of what was run: n = 4 at B = 8, and not n = 8 at B = 8.
    assert 2 ** np.median(surface.best_n.log2_n[:, -1]) == pytest.approx(4, rel=0.1)


def of_seeds(readings: list[CellReading], more: Callable[[Cell], float]) -> Means:
    """With what a seed has more, or less."""
    return means_of([replace(r, reward=(r.reward or 0.0) + more(r.cell)) for r in readings])


def test_luck_that_seeds_share_moves_all_n_together() -> None:
    luck = 0.05 * np.random.default_rng(5).standard_normal(6)
    readings = read(make_plan(seeds=range(6)), peaked(lambda C: 8.0, fall=0.01), noise=0.01)
    means = of_seeds(readings, lambda cell: luck[cell.seed])
    # 25 parts of 26 are shared; a few seeds do not show all of that.
    assert 0.6 < means.common <= 0.98
    one, other = 0, len(BUDGETS)
    noise = of_one_spread(means)
    assert noise[one, other] == pytest.approx(means.common * noise[one, one], rel=0.1)
    assert np.linalg.eigvalsh(means.noise).min() > 0
    # Pairing narrows the interval of the best n.
    cell = means.log2_n[:, None] == means.log2_n
    unpaired = replace(means, noise=np.where(cell, means.noise, 0.0))
    paired, alone = (fit_surface(m).best_n.log2_n[:, -1].std() for m in (means, unpaired))
    assert paired < 0.8 * alone


def test_a_seed_that_favours_large_n_says_little_of_n() -> None:
    # Every n is alike; a seed favours large n, or small ones, in all of its runs.
    slopes = 0.02 * np.random.default_rng(3).standard_normal(6)
    readings = read(make_plan(seeds=range(6)), lambda C, n, B: 0.4, noise=0.01)
    means = of_seeds(readings, lambda c: slopes[c.seed] * (np.log2(c.num_generations) - 3))
    small, large = (np.flatnonzero(means.log2_n == x)[0] for x in (1, 5))
    correlation = means.noise[small, large] / means.noise[small, small]
    assert -1 < correlation < -0.6
    assert np.linalg.eigvalsh(means.noise).min() > 0


def test_where_the_best_n_may_lie_beyond_what_was_run_is_known() -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2))
    middle = BUDGETS[2]
    cells = tuple(
        cell
        for cell in plan.cells
        if (cell.budget > middle or cell.num_generations <= 8)
        and (cell.budget < middle or cell.num_generations >= 4)
    )
    # Small n at small budgets, large n at large ones; n* is 32 before, and 2 after.
    reward = peaked(lambda C: 32.0 if middle >= C else 2.0)
    surface = fit_surface(means_of(read(replace(plan, cells=cells), reward, noise=0.001)))
    above, below = surface.best_n.above.mean(axis=0), surface.best_n.below.mean(axis=0)
    assert above.round(1).tolist() == [1, 1, 1, 0, 0]
    assert below.round(1).tolist() == [0, 0, 0, 1, 1]


def test_small_n_that_fell_behind_are_known_to_have_stayed_there() -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32), seeds=(0, 1, 2))
    small = tuple(c for c in plan.cells if c.budget <= BUDGETS[2] or c.num_generations >= 8)
    large = tuple(c for c in plan.cells if c.budget <= BUDGETS[2] or c.num_generations <= 8)
    reward = peaked(lambda C: 8.0)
    without = fit_surface(means_of(read(replace(plan, cells=small), reward, noise=0.001)))
    assert without.best_n.below[:, 3:].mean() < 0.4
    # That large n stayed behind is what growth is asked of.
    without = fit_surface(means_of(read(replace(plan, cells=large), reward, noise=0.001)))
    assert without.best_n.above[:, 3:].mean() > 0.95


@pytest.mark.slow
def test_many_means_are_all_used_though_some_weigh_the_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan(seeds=(0, 1, 2, 3), generations=(2, 4, 8, 16, 32, 64, 128))
    means = means_of(read(plan, peaked(lambda C: 8.0), noise=0.004, luck=0.004))
    whole = fit_surface(means)
    monkeypatch.setattr("isosweep.analysis.statistics.surface._MANY_MEANS", 15)
    some = fit_surface(means)
    assert (len(whole.draws), len(some.draws)) == (2000, 1000)
    assert some.by_n.mean(axis=0) == pytest.approx(whole.by_n.mean(axis=0), abs=0.002)
    ratio = some.by_n.std(axis=0) / whole.by_n.std(axis=0)
    assert 0.8 < ratio.mean() < 1.3


def test_some_of_the_means_keep_their_own_noise() -> None:
    means = means_of(read(make_plan(), peaked(lambda C: 8.0), noise=0.004, luck=0.004))
    some = means.some(7, np.random.default_rng(0))
    for row, reward in enumerate(some.reward):
        (at,) = np.flatnonzero(means.reward == reward)
        assert (some.log2_n[row], some.budget[row]) == (means.log2_n[at], means.budget[at])
        others = [np.flatnonzero(means.reward == other)[0] for other in some.reward]
        assert some.noise[row].tolist() == means.noise[at, others].tolist()


def test_a_seed_draws_the_same_surfaces_whatever_signs_eigenvectors_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processors choose them differently."""
    means = means_of(read(make_plan(), peaked(lambda C: 8.0), noise=0.01))
    expected = fit_surface(means).draws
    eigh = np.linalg.eigh

    def other_signs(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, vectors = eigh(matrix)
        return values, vectors * np.where(np.arange(len(values)) % 2, 1, -1)

    monkeypatch.setattr(np.linalg, "eigh", other_signs)
    assert fit_surface(means).draws == pytest.approx(expected, abs=1e-9)
