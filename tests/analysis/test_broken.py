"""A broken record is left out and named; what a run did itself is not."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import Curve, collapse, without_broken
from tests.analysis.sweeps import made_curve, make_plan

# Records before training, and 10 later ones.
RISE = [0.1, *np.linspace(0.2, 0.6, 10)]
PLAN = make_plan(seeds=range(2))


def curves_of(rewards: list[float]) -> list[Curve]:
    """A curve with these rewards, and all others of the plan as they should be."""
    noise = np.random.default_rng(0).normal(0, 0.003, (len(PLAN.runs), len(RISE)))
    made = []
    for place, run in enumerate(PLAN.runs):
        own = np.array(rewards if place == 0 else RISE) + noise[place]
        steps = np.arange(len(own))
        compute = np.where(steps > 0, 32e6 * 10 ** ((steps - 10) / 5), 0.0)
        curve = made_curve(compute, own, run=run, problems=512)
        made.append(replace(curve, collapsed_at=collapse(curve)))
    return made


def with_values(changed: dict[int, float]) -> list[float]:
    return [changed.get(place, reward) for place, reward in enumerate(RISE)]


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, ()),
        ({6: 0.0}, (6,)),
        ({6: 0.9}, (6,)),
        ({3: 0.0, 8: 0.25}, (3, 8)),
        # The last may be the start of a fall that lasts: it is not known.
        ({10: 0.0}, (10,)),
        ({10: 0.9}, ()),
        ({8: 0.3, 10: 0.0}, (8, 10)),
        ({5: 0.0, 6: 0.0}, ()),
        ({9: 0.12, 10: 0.12}, ()),
    ],
)
def test_a_record_far_from_both_of_its_neighbours_is_left_out(
    changed: dict[int, float], broken: tuple[int, ...]
) -> None:
    first, *others = without_broken(curves_of(with_values(changed)))
    assert first.broken == broken
    assert not set(broken) & set(first.steps.tolist())
    assert len(first.reward) == len(first.successes) == len(RISE) - len(broken)
    assert all(curve.broken == () for curve in others)


def test_a_collapse_is_where_it_was_once_a_record_before_it_is_left_out() -> None:
    before = curves_of(with_values({4: 0.0, 9: 0.12, 10: 0.12}))[0]
    assert before.collapsed_at == 9
    (after, *_) = without_broken(curves_of(with_values({4: 0.0, 9: 0.12, 10: 0.12})))
    assert after.broken == (4,)
    assert after.collapsed_at == 8
    assert after.steps[8] == before.steps[9]


def test_a_record_within_the_error_of_its_evaluation_is_kept() -> None:
    curves = [
        replace(curve, successes=curve.successes[:, :4]) for curve in curves_of(with_values({}))
    ]
    off = curves[0].reward.copy()
    off[6] -= 0.2
    curves[0] = replace(curves[0], reward=off)
    assert without_broken(curves)[0].broken == ()


def fallen_at_the_end(*places: int, last: float = 0.12) -> list[Curve]:
    """Curves of which those at these places end with a fall to `last`."""
    curves = curves_of(with_values({}))
    for place in places:
        reward = curves[place].reward.copy()
        reward[-1] = last
        curves[place] = replace(curves[place], reward=reward)
    return curves


def test_a_last_record_that_fell_counts_where_runs_collapse() -> None:
    (collapsed, *_) = curves_of(with_values({9: 0.12, 10: 0.12}))
    curves = [collapsed, *fallen_at_the_end(3)[1:]]
    assert collapsed.collapsed_at == 9
    assert [curve.broken for curve in without_broken(curves)] == [()] * len(curves)


def test_last_records_that_many_runs_have_fallen_to_count() -> None:
    # Of each n one run.
    firsts = {curve.run.num_generations: k for k, curve in enumerate(fallen_at_the_end())}
    one, *others = firsts.values()
    assert without_broken(fallen_at_the_end(one))[one].broken == (10,)
    assert 1 + len(others) > 0.1 * len(PLAN.runs)
    assert not any(curve.broken for curve in without_broken(fallen_at_the_end(one, *others)))


def test_what_two_runs_of_an_n_do_at_one_step_is_their_own() -> None:
    curves = curves_of(with_values({6: 0.0}))
    other = next(c for c in curves[1:] if c.run.num_generations == curves[0].run.num_generations)
    dipped = np.where(other.steps == 6, 0.0, other.reward)
    both = [replace(c, reward=dipped) if c is other else c for c in curves]
    assert without_broken(curves)[0].broken == (6,)
    assert [c.broken for c in without_broken(both)] == [()] * len(both)
