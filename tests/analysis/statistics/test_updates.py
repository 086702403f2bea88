"""What more updates on each rollout save and cost, with a planted power law."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.curves import Curve
from isosweep.analysis.pages.comparison import summarise
from isosweep.analysis.statistics.across import Unidentified
from isosweep.analysis.statistics.updates import Need, Needs, find_need, find_needs
from tests.analysis.statistics.planted import RUN, compared, curve_of
from tests.analysis.sweeps import BUDGETS, RewardAt, paths_in

UPDATES = (1, 2, 4)


def runs(saving: float, rng: np.random.Generator, *, noise: float = 0.01) -> list[list[Curve]]:
    """Curves (updates, seeds) by a sigmoid in rollouts, whose middle U updates bring to U^-saving;
    luck of a seed at all U, and of each run."""
    luck = 0.15 * rng.standard_normal(3)
    drawn = np.concatenate([[0], np.unique(np.geomspace(4, 1000, 15).round())]).astype(int)
    rollouts = drawn * RUN.num_generations * RUN.problems_per_batch
    curves = []
    for updates in UPDATES:
        of = []
        for own in luck:
            middle = math.log(3000) - saving * math.log(updates) + own
            middle += 0.1 * rng.standard_normal()
            rise = 1 / (1 + np.exp(1.5 * (middle - np.log(np.maximum(rollouts, 1e-9)))))
            reward = 0.2 + 0.5 * rise + noise * rng.standard_normal(len(drawn))
            of.append(curve_of(rollouts * (1.0 + updates), reward, steps=drawn))
        curves.append(of)
    return curves


def test_intervals_of_what_a_doubling_saves_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(3)
    held, costs = [], []
    for _ in range(100):
        saving = rng.uniform(0, 0.9)
        found = find_needs(UPDATES, runs(saving, rng), 0.02, 0.9)
        if isinstance(found, Unidentified):
            continue
        assert 0.25 < found.threshold < 0.45
        rollouts, compute = found.rollouts, found.compute
        held.append(rollouts.factor.low <= 2**-saving <= rollouts.factor.high)
        # One forward and backward pass for each update, and one for sampling: 1 + U.
        costs.append(compute.factor.median / rollouts.factor.median)
    assert len(held) >= 93
    assert 0.84 <= np.mean(held) <= 0.96
    slope = np.polyfit(np.log2(UPDATES), np.log2(1.0 + np.array(UPDATES)), 1)[0]
    assert costs == pytest.approx([2**slope] * len(costs), rel=1e-6)


def test_what_goes_by_no_power_is_no_law() -> None:
    rng = np.random.default_rng(0)
    needed = 1000 * 2.0 ** (
        np.array([0.0, -1.0, 0.0, 1.0])[:, None] + 0.02 * rng.standard_normal((4, 3))
    )
    assert find_need((1, 2, 4, 8), needed, 0.9) == Unidentified(kind="no law")


def test_the_luck_of_a_seed_at_all_updates_is_no_noise() -> None:
    own = 0.01 * np.random.default_rng(0).standard_normal((3, 3))
    luck = np.array([-1.0, 0.0, 1.0])
    need = find_need(UPDATES, 2.0 ** (10 - np.log2(UPDATES)[:, None] + luck + own), 0.9)
    assert isinstance(need, Need)
    assert need.factor.median == pytest.approx(0.5, rel=0.02)
    assert need.factor.high / need.factor.low < 1.1


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (lambda of: [row[:1] for row in of], Unidentified(kind="few seeds", found=1, least=2)),
        (
            lambda of: [[replace(c, reward=0 * c.reward + 0.3) for c in row] for row in of],
            Unidentified(kind="little gain", found=0.0, least=0.04),
        ),
        (
            lambda of: [[replace(c, reward=0.2 + 0.3 * (c.steps > 0)) for c in row] for row in of],
            Unidentified(kind="at once"),
        ),
        (
            lambda of: [[replace(c, reward=of[0][0].reward) for c in row] for row in of],
            Unidentified(kind="no spread"),
        ),
    ],
)
def test_what_is_not_identified_says_why(changed: object, why: Unidentified) -> None:
    assert callable(changed)
    found = find_needs(UPDATES, changed(runs(0.5, np.random.default_rng(0))), 0.02, 0.9)
    assert vars(found) == pytest.approx(vars(why))


def test_variants_of_the_updates_say_what_they_save_and_cost(tmp_path: Path) -> None:
    """Sweeps whose rewards rise with rollouts times the root of their updates."""

    def of(number: int) -> RewardAt:
        rate = number**0.5 / BUDGETS[0] / 8
        return lambda compute, n, B: 0.2 + 0.08 * float(np.log2(1 + compute * rate))

    entries = {f"{k} updates": (of(k), {"recipe": {"num_iterations": k}}) for k in (1, 4, 16)}
    comparison, of_two = compared(tmp_path, entries)
    assert of_two.updates_laws == ()
    (law,) = comparison.updates_laws
    assert law.updates == (1, 4, 16)
    assert law.entries == ("1 updates", "4 updates", "16 updates")
    assert isinstance(law.found, Needs)
    factor = law.found.rollouts.factor
    assert factor.low <= 2**-0.5 <= factor.high < 0.85
    assert summarise(comparison)[-1].startswith("Each doubling of the updates on a rollout")
    document = json.loads(paths_in(tmp_path).comparison.read_text())
    assert document["updates_laws"][0]["found"]["rollouts"]["factor"]["high"] == factor.high
    page = paths_in(tmp_path).report.read_text()
    assert 'id="figure-comparison_updates"' in page
    assert "Updates to data" in page
