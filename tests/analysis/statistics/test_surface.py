"""The reward surface against planted rewards."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.statistics.surface import fit_surface
from tests.analysis.statistics.planted import means_of, read
from tests.analysis.sweeps import BUDGETS, make_plan, peaked


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
        assert surface.best_n[:, k].mean() == pytest.approx(truth, abs=0.15)


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
    assert 2 ** np.median(surface.best_n[:, -1]) == pytest.approx(4, rel=0.1)


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
    best = surface.drawn_n(0.0)
    above, below = best.above.mean(axis=0), best.below.mean(axis=0)
    assert above.round(1).tolist() == [1, 1, 1, 0, 0]
    assert below.round(1).tolist() == [0, 0, 0, 1, 1]


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
