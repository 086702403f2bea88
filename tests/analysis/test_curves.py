"""A run has collapsed where two records say so, and a broken record is left out and named."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import Curve, Ending, collapse, judged_curves
from isosweep.analysis.records import make_curve
from isosweep.compute import Compute
from isosweep.store.records import Record
from tests.analysis.sweeps import made_curve, make_plan

BEFORE = [0.1, 0.3, 0.5, 0.6]
# Records before training, and 10 later ones.
RISE = [0.1, *np.linspace(0.2, 0.6, 10)]
PLAN = make_plan(seeds=range(2))


def curve_of(rewards: list[float], seed: int, n: int, diverged_by: str | None = None) -> Curve:
    (run,) = make_plan(generations=(n,), seeds=(seed,)).runs
    compute = 1e6 * np.arange(len(rewards), dtype=np.float64)
    curve = made_curve(compute, np.array(rewards), run=run, problems=512)
    return replace(curve, ending=Ending(diverged_by=diverged_by))


@pytest.mark.parametrize(
    ("after", "diverged_by", "first"),
    [
        ([0.15], None, None),
        ([0.15, 0.14], None, 4),
        ([0.15, 0.58], None, None),
        # Training's own reward has said so already.
        ([0.15], "collapse", 4),
    ],
)
def test_one_bad_record_is_no_collapse(
    after: list[float], diverged_by: str | None, first: int | None
) -> None:
    assert collapse(curve_of(BEFORE + after, 0, 8, diverged_by)) == first


def test_a_fall_within_the_errors_of_two_evaluations_is_no_collapse() -> None:
    """Both the best record and the one below it err, each by sqrt(0.25 / 4096) here."""
    error = np.sqrt(2 * 0.25 / 4096)
    for fall, first in ((5 * error, None), (7 * error, 2)):
        assert collapse(curve_of([0.5, 0.51, 0.51 - fall, 0.51 - fall], 0, 8)) == first


def test_a_last_record_is_believed_where_another_run_of_the_same_n_fell_too() -> None:
    fallen, kept = [*BEFORE, 0.15], [*BEFORE, 0.59]
    alone = [curve_of(fallen, 0, 8), curve_of(kept, 1, 8), curve_of(fallen, 0, 16)]
    assert [c.collapsed_at for c in judged_curves(alone)] == [None, None, None]
    both = [*alone, curve_of(fallen, 2, 8)]
    assert [c.collapsed_at for c in judged_curves(both)] == [4, None, None, 4]


def test_a_fall_of_rewards_alone_is_a_collapse_and_no_error() -> None:
    """Errors that nobody reported are read off the curve, of which a fall is a part."""
    rewards = [*(0.3 + 0.03 * k + 0.002 * (-1) ** k for k in range(12)), 0.2, 0.2]
    records = [
        Record(
            step=step,
            mean_reward=reward,
            unix_time=0.0,
            compute=Compute(generations=step, rollouts=step, training_flops=1e6 * step),
        )
        for step, reward in enumerate(rewards)
    ]
    assert collapse(make_curve(PLAN.runs[0], records, "flops", Ending())) == 12


def judged(changed: dict[int, dict[int, float]]) -> tuple[Curve, ...]:
    """Curves that rise, of which some, by place, have other rewards at some records."""
    noise = np.random.default_rng(0).normal(0, 0.003, (len(PLAN.runs), len(RISE)))
    compute = np.array([0.0, *32e6 * 10 ** ((np.arange(1, 11) - 10) / 5)])
    made = []
    for place, run in enumerate(PLAN.runs):
        rewards = [changed.get(place, {}).get(k, reward) for k, reward in enumerate(RISE)]
        made.append(made_curve(compute, np.array(rewards) + noise[place], run=run, problems=512))
    return judged_curves(made)


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, ()),
        ({6: 0.0}, (6,)),
        ({6: 0.9}, (6,)),
        ({3: 0.0, 8: 0.25}, (3, 8)),
        ({10: 0.9}, ()),
        ({8: 0.3, 10: 0.0}, (8, 10)),
        ({5: 0.0, 6: 0.0}, ()),
        # Beside a collapse.
        ({9: 0.12, 10: 0.12}, ()),
        ({4: 0.0, 9: 0.12, 10: 0.12}, (4,)),
    ],
)
def test_a_record_far_from_both_of_its_neighbours_is_left_out(
    changed: dict[int, float], broken: tuple[int, ...]
) -> None:
    first, *others = judged({0: changed})
    assert first.broken == broken
    assert not set(broken) & set(first.steps.tolist())
    assert len(first.reward) == len(first.successes) == len(RISE) - len(broken)
    assert all(curve.broken == () for curve in others)
    if first.collapsed_at is not None:
        assert first.steps[first.collapsed_at] == 9


def test_a_last_record_that_fell_is_broken_only_where_other_evaluations_are() -> None:
    def ends(changed: dict[int, dict[int, float]]) -> list[tuple[int | None, tuple[int, ...]]]:
        return [(c.collapsed_at, c.broken) for c in judged(changed)[:4]]

    kept, fell = (None, ()), (10, ())
    assert ends({3: {10: 0.12}}) == [kept, kept, kept, fell]
    assert ends({0: {5: 0.0}, 3: {10: 0.12}}) == [(None, (5,)), kept, kept, (None, (10,))]
    assert ends({0: {9: 0.12, 10: 0.12}, 1: {5: 0.0}, 3: {10: 0.12}}) == [
        *((9, ()), (None, (5,)), kept),
        fell,
    ]


def test_what_two_runs_of_an_n_do_at_one_step_is_their_own() -> None:
    n = PLAN.runs[0].num_generations
    other = next(k for k, run in enumerate(PLAN.runs) if k and run.num_generations == n)
    assert not any(curve.broken for curve in judged({0: {6: 0.0}, other: {6: 0.0}}))
