"""The law of model sizes, planted."""

from pathlib import Path

import numpy as np
import pytest

from isosweep import words
from isosweep.analysis.pages.comparison import summarise
from isosweep.analysis.statistics.across import Unidentified
from isosweep.analysis.statistics.sizes import SizeFit, fit_sizes
from tests.analysis.statistics.planted import compared
from tests.analysis.sweeps import LONG, RewardAt, paths_in

SIZES = np.array([0.5e9, 1.5e9, 3e9, 7e9])
LARGEST, ERROR, LUCK = 0.08, 0.001, 0.06


def slopes_of(half_size: float, largest: float, rng: np.random.Generator) -> list[np.ndarray]:
    """k of every seed: luck in proportion to it, and the error of evaluation."""
    k = largest / (1 + half_size / SIZES)[:, None]
    drawn = rng.standard_normal((2, len(SIZES), 3))
    return list(k * (1 + LUCK * drawn[0]) + ERROR * drawn[1])


def fitted(half_size: float, seed: int, largest: float = LARGEST) -> SizeFit | Unidentified:
    rng = np.random.default_rng(seed)
    return fit_sizes(SIZES, slopes_of(half_size, largest, rng), np.full(len(SIZES), ERROR), 0.9)


def known(fit: SizeFit | Unidentified) -> SizeFit:
    assert isinstance(fit, SizeFit)
    return fit


def test_intervals_hold_what_was_planted_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(0)
    held: list[bool] = []
    for seed in range(80):
        half_size = float(np.exp(rng.uniform(np.log(5e8), np.log(6e9))))
        fit = known(fitted(half_size, seed))
        for parameter, truth in ((fit.largest, LARGEST), (fit.half_size, half_size)):
            held.append((parameter.low or 0) <= truth <= (parameter.high or np.inf))
    assert 0.8 <= np.mean(held) <= 0.97


def test_what_sizes_cannot_show_is_left_open() -> None:
    proportional = [known(fitted(2e11, seed, 4.0)) for seed in range(10)]
    assert [fit.largest.high for fit in proportional].count(None) >= 8
    assert words.line("comparison", "estimate", proportional[0].largest).endswith("any more)")
    alike = [known(fitted(1.0, seed)) for seed in range(10)]
    assert [fit.half_size.low for fit in alike].count(None) >= 8
    # An optimum at the end of what was tried is none.
    ends = SIZES[0] / 100, SIZES[-1] * 100
    assert all(fit.half_size.value not in ends for fit in (*proportional, *alike))


def test_a_slope_that_evaluation_hardly_knows_hardly_counts() -> None:
    """The smallest model is off by as much as its evaluation errs."""
    k = LARGEST / (1 + 2e9 / SIZES) + np.array([0.02, 0, 0, 0])
    slopes = [mean * (1 + 0.01 * np.array([-1, 0, 1])) for mean in k]
    fit = known(fit_sizes(SIZES, slopes, np.array([0.02, 1e-4, 1e-4, 1e-4]), 0.9))
    assert fit.half_size.value == pytest.approx(2e9, rel=0.1)


@pytest.mark.parametrize(
    ("means", "error", "why"),
    [
        ((0.02, -0.01, 0.03, 0.05), 1e-4, Unidentified(kind="no fall")),
        ((0.08, 0.01, 0.08, 0.01), 1e-4, Unidentified(kind="no law")),
        ((0.05, 0.05, 0.05, 0.05), 0.2, Unidentified(kind="uncertain")),
    ],
)
def test_slopes_that_have_no_law_say_why(
    means: tuple[float, ...], error: float, why: Unidentified
) -> None:
    slopes = [mean + 0.001 * np.array([-1, 0, 1]) for mean in means]
    assert fit_sizes(SIZES, slopes, np.full(4, error), 0.9) == why


def test_models_of_three_sizes_give_the_law_of_sizes(tmp_path: Path) -> None:
    def of(size: float) -> RewardAt:
        k = 0.3 / (1 + 2e9 / size)
        return lambda compute, n, B: float(1 - 0.7 * (compute / LONG[0]) ** -k)

    entries = {f"{size:g}": (of(size), {"size": size}) for size in (0.5e9, 1.5e9, 7e9)}
    comparison, of_two = compared(tmp_path, entries, noise=0.003, budgets=LONG)
    assert of_two.size_laws == ()
    (law,) = comparison.size_laws
    assert law.entries == ("5e+08", "1.5e+09", "7e+09")
    assert law.slopes[0].median == pytest.approx(0.06, rel=0.1)
    fit = known(law.found)
    assert fit.largest.value == pytest.approx(0.3, rel=0.15)
    assert fit.half_size.value == pytest.approx(2e9, rel=0.25)
    assert "K_max = 0." in summarise(comparison)[-1]
    page = paths_in(tmp_path).report.read_text()
    assert 'id="figure-comparison_size"' in page
    assert "Model size" in page
