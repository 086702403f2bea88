"""Planted worlds: the best n is the target, the mean is the expectation, and what truth says."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.simulation.planted import PlantedWorld
from isosweep.analysis.simulation.presets import COURSES, delayed_worlds, planted_worlds
from isosweep.analysis.simulation.truth import Truth, batches_of, find_truth
from isosweep.analysis.simulation.worlds import Batches
from isosweep.config.base import replaced
from isosweep.plan.cells import Plan
from tests.analysis.statistics.planted import BEST

PLANTED = planted_worlds(1e18, 1e21, 8, 2048)
PRESETS = {**delayed_worlds(10**19.5, 8, 2048), **PLANTED}
TRUTHS = {
    "logarithm": ("growing", 1.33),
    "slow_tail": ("growing", 1.10),
    "pause": ("growing", 2.78),
    "dip": ("fell", -0.97),
    "recovery": ("growing", 2.15),
    "falling": ("fell", -1.33),
    "constant": ("constant", 0.0),
    "early": ("saturated", 0.0),
    "plateau": ("saturated", 0.16),
    "collapses": ("saturated", 0.0),
    "near_030": ("saturated", 0.30),
    "near_040": ("saturated", 0.39),
    "near_060": ("growing", 0.57),
    "near_080": ("growing", 0.75),
    "flat": ("n does not matter", None),
    "easy": ("saturated", 0.46),
    "growing": ("growing", 0.0),
}


def truth(name: str, plan: Plan, margin: float = BEST.margin) -> Truth:
    return find_truth(PRESETS[name], plan, replaced(BEST, margin=margin))


def best_of(world: PlantedWorld) -> Batches:
    return lambda n: np.asarray(2.0 ** world.log2_best_batch(n))[None]


def test_the_best_n_is_the_planted_one() -> None:
    for name in set(COURSES) - {"collapses"}:
        world = PLANTED[name]
        for compute in np.geomspace(1e18, 1e21, 7):
            x = np.log2(world.best_n(float(compute), 2.0, 65536.0, best_of(world)))
            assert x == pytest.approx(float(world.target(compute)), abs=2e-4), name
        # The course as the table has it: doublings above n = 8 at decades after the first budget.
        for decades, doublings in COURSES[name]:
            target = float(world.target(np.array(10.0 ** (18 + decades))))
            assert target == pytest.approx(3 + doublings), name


def test_verdict_and_rate_follow_from_the_course(nominal: Plan) -> None:
    found = {name: truth(name, nominal) for name in TRUTHS}
    assert {name: of.verdict for name, of in found.items()} == {
        n: v for n, (v, _) in TRUTHS.items()
    }
    for name, (_, rate) in TRUTHS.items():
        assert found[name].rate == (rate and pytest.approx(rate, abs=0.02)), name


def test_a_bound_or_a_margin_above_the_course_changes_the_verdict(nominal: Plan) -> None:
    tail = PLANTED["slow_tail"]
    assert find_truth(tail, nominal, replaced(BEST, growth_bound=1.2)).verdict == "saturated"
    assert truth("slow_tail", nominal, margin=0.2).verdict == "n does not matter"


def test_what_a_verdict_claims_is_so_or_not(nominal: Plan) -> None:
    tail, flat, dip = (truth(name, nominal) for name in ("slow_tail", "flat", "dip"))
    claims = ("growing", "grew", "saturated", "not identified")
    assert [v for v in claims if tail.bears(v)] == ["growing", "grew"]
    assert [v for v in ("constant", "steady", "grew") if flat.bears(v)] == ["constant", "steady"]
    assert truth("early", nominal).moved[0] > 1
    assert not truth("early", nominal).bears("steady")
    # A budget at which larger n are planned alone, or that is planned whole: where it begins.
    late = replace(
        nominal, cells=tuple(c for c in nominal.cells if c.budget > 1e20 or c.num_generations == 8)
    )
    assert truth("early", nominal).bears("steady", since=1e20)
    assert truth("early", late).bears("steady")
    assert not truth("slow_tail", late).bears("steady")
    # It rose by more than it fell: both sentences are true.
    assert [v for v in ("fell", "grew", "constant") if dip.bears(v)] == ["fell", "grew"]
    assert not truth("constant", nominal).bears("n does not matter")


def test_collapses_make_smaller_n_the_best_in_expectation(nominal: Plan) -> None:
    world = PLANTED["collapses"]
    kept, grid = replace(world, collapse=None), (8, 2048, batches_of(nominal))
    assert kept.best_n(1e21, *grid) == pytest.approx(512, rel=1e-3)
    assert world.best_n(1e21, *grid) == pytest.approx(64, rel=1e-3)
    # Before any run has collapsed nothing is lost.
    assert world.best_n(1e19, *grid) == kept.best_n(1e19, *grid)


@pytest.mark.parametrize("name", ["heavy_tails", "collapses", "two_humps", "slow", "unstable"])
def test_the_mean_of_many_runs_is_the_worlds_reward(name: str, nominal: Plan) -> None:
    world = PRESETS[name]
    run = next(run for run in nominal.runs if run.num_generations == 256)
    compute = np.geomspace(1e18, 1e21, 5)
    drawn = world.curves([run] * 1000, [compute] * 1000, np.random.default_rng(0))
    rewards = np.array([curve for curve in drawn if curve is not None])
    error = rewards.std(axis=0) / np.sqrt(len(rewards))
    gaps = np.abs(rewards.mean(axis=0) - world.reward(compute, 256.0, 32.0))
    # `unstable` is exact to first order in the spread of ln C_mid.
    assert (gaps < 4 * error + (2e-3 if name == "unstable" else 1e-9)).all()


def test_a_shorter_plan_gets_the_same_course() -> None:
    stretched = planted_worlds(1e10, 1e12, 2, 32)["slow_tail"]
    # Two decades for three, four doublings for eight: half as far in two thirds of the way.
    assert float(stretched.target(np.array(1e10 * 10 ** (0.9 * 2 / 3)))) == pytest.approx(1 + 2.15)
    assert float(stretched.target(np.array(1e12))) == pytest.approx(1 + 3.45)
