"""Where reuse of problems begins to cost, with a planted loss."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from isosweep.analysis.load import load_sweep
from isosweep.analysis.pages.comparison import summarise, write_comparison
from isosweep.analysis.statistics.across import Unidentified
from isosweep.analysis.statistics.compare import Comparison, compare
from isosweep.analysis.statistics.entries import Entry, groups_but_for
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.reuse import Onset, _isotonic, find_onset
from isosweep.config.analysis import AnalysisConfig
from isosweep.files import write_json
from tests.analysis.sweeps import BUDGETS, COST, make_plan, paths_in, write_sweep

CONFIG = AnalysisConfig(name="default")
MARGIN = 0.02
# As many draws from 51,200 problems down to 512 (arXiv 2509.25300, figure 7b).
PASSES = np.array([1.0, 2.0, 5.0, 20.0, 25.0, 50.0, 100.0])


def loss(passes: np.ndarray | float, onset: float) -> np.ndarray:
    """Nothing up to a doubling before `onset`, where it is the margin; straight in log passes."""
    return np.asarray(MARGIN * np.maximum(0, 1 + np.log2(passes / onset)))


def measured(onset: float, rng: np.random.Generator, seeds: int = 3) -> np.ndarray:
    """Rewards (amounts, seeds), with luck that a seed has at all amounts."""
    luck = 0.01 * rng.standard_normal(seeds)
    own = 0.008 * rng.standard_normal((len(PASSES), seeds))
    return 0.5 - loss(PASSES, onset)[:, None] + luck + own


def found(onset: float, seed: int) -> Onset:
    rewards = measured(onset, np.random.default_rng(seed))
    law = find_onset(PASSES, rewards, MARGIN, CONFIG.confidence)
    assert isinstance(law, Onset)
    return law


def test_intervals_of_the_onset_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(0)
    held = []
    for seed in range(120):
        onset = float(2 ** rng.uniform(2, 6.5))
        law = found(onset, seed)
        held.append(law.harmless <= onset <= (law.harmful or np.inf))
    assert 0.82 <= np.mean(held) <= 0.97


def test_a_loss_beyond_what_was_run_is_left_open() -> None:
    laws = [found(1e6, seed) for seed in range(20)]
    assert np.mean([law.harmful is None for law in laws]) >= 0.9
    assert all(law.harmless <= PASSES[-1] for law in laws)
    assert np.mean([law.probability for law in laws]) < 0.3


def test_where_between_two_numbers_of_passes_it_begins_is_not_taken_for_known() -> None:
    """Next to no noise: nothing is lost at 50 passes, and five margins at 100."""
    lost = np.array([0, 0, 0, 0, 0, 0, 5 * MARGIN])
    noise = 1e-5 * np.random.default_rng(0).standard_normal((7, 3))
    law = find_onset(PASSES, 0.5 - lost[:, None] + noise, MARGIN, 0.9)
    assert isinstance(law, Onset)
    assert law.harmful is not None
    assert 50 <= law.harmless < 52
    assert 80 < law.harmful <= 100


def test_a_cliff_is_held_wherever_it_lies_between_two_numbers_of_passes() -> None:
    lost = np.array([0, 0, 0, 0, 5 * MARGIN, 5 * MARGIN, 5 * MARGIN])
    noise = 1e-5 * np.random.default_rng(0).standard_normal((7, 3))
    law = find_onset(PASSES, 0.5 - lost[:, None] + noise, MARGIN, 0.9)
    assert isinstance(law, Onset)
    assert law.harmful is not None
    way = np.log2(np.array([law.harmless, law.harmful]) / PASSES[3]) / np.log2(
        PASSES[4] / PASSES[3]
    )
    # With powers alone the upper end lies at 0.74.
    assert way[0] < 0.02
    assert way[1] > 0.78


def test_isotonic_regression_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).standard_normal((50, 7))
    theirs = np.array([isotonic_regression(row).x for row in values])
    assert _isotonic(values) == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("rewards", "why"),
    [
        (np.zeros((7, 1)), Unidentified(kind="few seeds", found=1, least=2)),
        (
            0.5 + 0.05 * np.arange(7)[:, None] + 0.001 * np.eye(7, 3),
            Unidentified(kind="no law"),
        ),
        (np.full((7, 3), 0.5), Unidentified(kind="no spread")),
    ],
)
def test_what_is_not_identified_says_why(rewards: np.ndarray, why: Unidentified) -> None:
    assert find_onset(PASSES, rewards, MARGIN, 0.9) == why


def variants(root: Path, onset: float, numbers: tuple[int, ...]) -> Comparison:
    """Sweeps of one (n, B) that differ in their number of training problems alone."""
    plan = make_plan(generations=(8,), seeds=(0, 1, 2))
    entries = []
    for place, number in enumerate(numbers):

        def reward(compute: float, n: int, B: int, number: int = number) -> float:
            passes = compute / COST / n / number
            return 0.4 + 0.02 * float(np.log2(compute / BUDGETS[0])) - float(loss(passes, onset))

        paths = write_sweep(root / str(number), reward, plan=plan, noise=0.004, seed=place)
        write_json(paths.config, {"task": {"num_train_problems": number}, "grid": {}})
        data = load_sweep(paths)
        entries.append(Entry.of_variant({}, data, find(data, CONFIG), sweep=f"{number} problems"))
    comparison = compare(entries, CONFIG, "variant")
    write_comparison(comparison, entries, paths_in(root), ["png"])
    return comparison


def test_variants_of_the_number_of_problems_say_where_reuse_begins_to_cost(
    tmp_path: Path,
) -> None:
    last = BUDGETS[-1] / COST / 8
    numbers = tuple(round(last / passes) for passes in (1, 4, 16, 64))
    comparison = variants(tmp_path, 16.0, numbers)
    (law,) = comparison.reuse_laws
    assert law.passes == pytest.approx((1, 4, 16, 64), rel=0.02)
    assert law.entries[0] == f"{numbers[0]} problems"
    assert isinstance(law.found, Onset)
    assert law.found.harmful is not None
    assert law.found.harmless <= 16.0 <= law.found.harmful
    assert law.found.harmless > 4
    assert summarise(comparison)[-1].startswith("At 3.2e7 FLOPs, reuse begins to cost more than")
    document = json.loads(paths_in(tmp_path).comparison.read_text())
    assert document["reuse_laws"][0]["found"]["harmful"] == law.found.harmful
    page = paths_in(tmp_path).report.read_text()
    assert 'id="figure-comparison_reuse"' in page
    assert "Data reuse" in page


def test_two_numbers_of_problems_give_no_law(tmp_path: Path) -> None:
    comparison = variants(tmp_path, 16.0, (40_000, 10_000))
    assert comparison.reuse_laws == ()
    assert "comparison_reuse" not in paths_in(tmp_path).report.read_text()


def test_variants_that_differ_in_more_are_told_apart() -> None:
    one = Entry(name="a", data=None, findings=None, parameters=None, settings={"recipe.beta": 0})  # type: ignore[arg-type]
    more = replace(one, settings={"recipe.beta": 0, "task.num_train_problems": 3})
    other = replace(one, settings={"recipe.beta": 1, "sweep_dir": "b"})
    assert groups_but_for([one, more, other], "task.num_train_problems") == [[one, more], [other]]
