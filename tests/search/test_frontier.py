"""What a search believes, asks for next, and ends by."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import Ending
from isosweep.analysis.readings import read_runs
from isosweep.config.base import replaced
from isosweep.search.belief import form_belief
from isosweep.search.candidates import START, Decision, Step, open_runs, standings, start
from isosweep.search.frontier import decide
from tests.analysis.sweeps import make_plan
from tests.search.sweeps import (
    ANALYSIS,
    BUDGETS,
    GENERATIONS,
    PLAN,
    SEARCH,
    question,
    run_id,
    trained,
)

BEGUN = start(PLAN)
EVERYWHERE = {run.run_id: BUDGETS[-1] for run in PLAN.runs}


def choose(
    reached: dict[str, float],
    pending: dict[str, float] | None = None,
    *,
    count: int = 4,
    world: str = "plateau",
    max_compute: float | None = None,
) -> Decision:
    config = replaced(SEARCH, max_compute=max_compute)
    return decide(replace(question(trained(reached, world), config, pending), count=count))


def asked(steps: tuple[Step, ...]) -> dict[str, float]:
    return {step.run_id: step.milestone for step in steps}


def test_a_search_starts_with_two_seeds_of_every_n_for_a_tenth_of_the_grid() -> None:
    decision = choose({}, count=100)
    assert asked(decision.steps) == {
        run_id(n, seed): BUDGETS[2] for n in GENERATIONS for seed in (0, 1)
    }
    whole = BUDGETS[-1] * len(PLAN.runs)
    assert sum(step.compute for step in decision.steps) <= START * whole


def test_a_late_starter_is_begun_at_its_first_milestone() -> None:
    late = [
        replace(run, milestones=run.milestones[3:]) if run.num_generations == 128 else run
        for run in PLAN.runs
    ]
    wanted = start(replace(PLAN, runs=tuple(late)))
    assert wanted[run_id(128, 0)] == BUDGETS[3]
    assert run_id(128, 1) not in wanted


def test_later_steps_are_of_the_most_value_per_compute_and_the_same_again() -> None:
    decision = choose(BEGUN)
    assert len(decision.steps) == 4
    assert decision.stop is None
    assert decision == choose(BEGUN)
    assert decision.considered[0] == decision.steps[0]
    assert decision.chances is not None
    assert sum(decision.chances.values()) == pytest.approx(1)
    assert 0 < (decision.loss or 0) < 0.1
    assert all(step.value > 0 and step.why for step in decision.steps)
    for step in decision.steps:
        assert step.compute == step.milestone - BEGUN.get(step.run_id, 0.0)


def test_with_one_budget_a_start_has_a_second_seed_of_three_n_alone() -> None:
    one = make_plan(GENERATIONS, seeds=range(3), budgets=BUDGETS[-1:])
    wanted = start(one)
    assert {name for name in wanted if name.endswith("s0")} == {run_id(n, 0) for n in GENERATIONS}
    assert {name for name in wanted if name.endswith("s1")} == {run_id(n, 1) for n in (8, 32, 128)}
    assert len(wanted) == 8


def test_what_seems_decided_is_read_where_the_analysis_needs_it() -> None:
    reached = {run.run_id: BUDGETS[3] for run in PLAN.runs}
    belief = form_belief(PLAN, trained(reached, "constant").readings, ANALYSIS, 0)
    assert belief is not None
    assert belief.chances.max() > 0.85
    assert max(belief.ends, key=lambda n: belief.ends[n]) == 32
    # Two seeds to the largest budget, of the likeliest n and of the n next to it.
    decision = choose(reached, world="constant", count=8)
    assert asked(decision.steps) == {
        run_id(n, seed): BUDGETS[-1] for n in (32, 64) for seed in (0, 1)
    }
    # Where nothing is sure nothing of the kind is asked.
    open_still = choose(BEGUN, world="plateau", count=8)
    assert not {step.why for step in decision.steps} & {step.why for step in open_still.steps}


def test_the_best_n_is_read_at_the_end_too_where_a_smaller_one_is_judged() -> None:
    # Without it the analysis takes the judged n for censored.
    readings = trained({run.run_id: BUDGETS[3] for run in PLAN.runs}, "constant").readings
    belief = form_belief(PLAN, readings, replaced(ANALYSIS, quantity="enough"), 0)
    assert belief is not None
    assert min(belief.ends[16], belief.ends[32]) > 0.9


def test_a_search_ends_when_belief_and_analysis_have_the_same_verdict() -> None:
    # Of three seeds: two are not sure of it.
    reached = {run.run_id: BUDGETS[-1] for run in PLAN.runs}
    del reached[run_id(GENERATIONS[0], 2)]
    decision = choose(reached, world="constant")
    assert not decision.steps
    assert "the verdict is decided (constant, chance 9" in (decision.stop or "")


def test_no_search_ends_before_the_largest_budget_has_been_read() -> None:
    reached = {run.run_id: BUDGETS[3] for run in PLAN.runs}
    decision = choose(reached, world="growing", count=8)
    # Four at a time, and without a limit on compute nothing else ends it.
    assert decision.stop is None
    assert {step.milestone for step in decision.steps} == {BUDGETS[-1]}
    assert choose(reached, world="growing", max_compute=sum(reached.values())).stop is not None


def test_the_smallest_n_that_is_good_enough_is_decided_where_n_star_is_not() -> None:
    reached = {run.run_id: BUDGETS[-1] for run in PLAN.runs if run.seed < 2}
    asked_of = question(trained(reached, "slow_tail"))
    assert "decided" not in (decide(replace(asked_of, count=8)).stop or "")
    enough = decide(replace(asked_of, analysis=replaced(ANALYSIS, quantity="enough"), count=8))
    assert "the verdict is decided (growing" in (enough.stop or "")


def test_steps_take_account_of_those_before_them_and_of_pending_ones() -> None:
    one = choose(BEGUN, count=1).steps
    two = choose(BEGUN, count=2).steps
    assert two[0] == one[0]
    assert choose(BEGUN, asked(one), count=1).steps[0] == replace(two[1])
    assert one[0].run_id not in asked(choose(BEGUN, asked(one), count=8).steps)


def test_of_the_seeds_that_are_not_begun_the_first_is_open() -> None:
    begun = {run_id(8, 0): BUDGETS[0], run_id(16, 1): BUDGETS[0]}
    data = trained(begun)
    left = {run.run_id for run in open_runs(data.plan, standings(data.plan, data, {}))}
    assert left == {*begun, run_id(8, 1), *(run_id(n, 0) for n in GENERATIONS[1:])}


def test_nothing_is_asked_of_a_run_that_fell_or_failed() -> None:
    data = trained(BEGUN)
    curves = [
        replace(curve, ending=Ending(status="failed"))
        if curve.run.run_id == run_id(16, 0)
        else curve
        for curve in data.curves
    ]
    readings = [
        replace(reading, reward=None, fallen=0.1, reading="collapsed")
        if reading.cell.run_id == run_id(32, 0) and reading.cell.budget == BUDGETS[2]
        else reading
        for reading in data.readings
    ]
    data = replace(data, curves=tuple(curves), readings=tuple(readings))
    left = {run.run_id for run in open_runs(PLAN, standings(PLAN, data, {}))}
    assert not left & {run_id(16, 0), run_id(32, 0)}
    assert {run_id(16, 1), run_id(16, 2), run_id(32, 1)} <= left


def test_what_nobody_has_reached_is_wide_and_not_low() -> None:
    belief = form_belief(PLAN, trained(BEGUN).readings, ANALYSIS, 0)
    assert belief is not None
    shape = len(belief.budgets), len(belief.pairs)
    mean = belief.mean.reshape(shape)
    spread = np.sqrt(np.diag(belief.covariance)[: mean.size]).reshape(shape)
    assert belief.budgets == BUDGETS
    assert (np.diff(spread[2:].mean(axis=1)) > 0).all()
    assert (mean[3:] > mean[2] - 0.01).all()
    assert belief.chances.sum() == pytest.approx(1)
    # The level is known well enough that one run says something.
    count = len(belief.pairs)
    new = belief.covariance[3 * count : 4 * count, 3 * count : 4 * count]
    assert new.mean() < 0.05**2


def test_where_no_run_is_planned_nothing_is_lost_and_nothing_is_nan() -> None:
    cells = tuple(cell for cell in PLAN.cells if cell.budget != BUDGETS[1])
    belief = form_belief(replace(PLAN, cells=cells), trained(BEGUN).readings, ANALYSIS, 0)
    assert belief is not None
    assert not belief.offered[1].any()
    assert np.isfinite(belief.losses).all()
    assert belief.losses[1] == 0.0


def test_a_budget_between_is_offered_where_it_is_read() -> None:
    # The cell there has 3.6 steps, which the analysis rounds to the least that it reads.
    last = next(cell for cell in PLAN.cells if cell.num_generations == 128)
    rung = 3.6 * last.planned_compute / last.num_steps
    known = trained(BEGUN).readings
    between = [
        replace(reading, cell=replace(reading.cell, budget=rung))
        for reading in known
        if reading.cell.budget == BUDGETS[0]
    ]
    belief = form_belief(PLAN, [*known, *between], ANALYSIS, 0)
    assert belief is not None
    assert belief.offered[belief.budgets.index(rung)].all()


def test_a_search_whose_runs_collapsed_does_not_say_that_they_were_trained_to_the_end() -> None:
    readings = tuple(
        replace(r, reward=None, fallen=0.0) if r.cell.budget == BUDGETS[2] else r
        for r in trained(dict.fromkeys(EVERYWHERE, BUDGETS[2])).readings
    )
    data = replace(trained(dict.fromkeys(EVERYWHERE, BUDGETS[2])), readings=readings)
    decision = decide(question(data))
    assert not decision.steps
    assert "15 of 15 collapsed" in (decision.stop or "")


def test_a_search_waits_for_what_is_pending_before_it_ends() -> None:
    reached = {**EVERYWHERE, run_id(8, 0): BUDGETS[0]}
    decision = choose(reached, {run_id(8, 0): BUDGETS[-1]})
    assert not decision.steps
    assert decision.stop is None


def test_a_search_ends_when_its_compute_is_spent() -> None:
    spent = sum(BEGUN.values())
    decision = choose(BEGUN, max_compute=spent * 1.001)
    assert not decision.steps
    assert "search.max_compute" in (decision.stop or "")
    assert "is less than any first step takes" in (choose({}, max_compute=1.0).stop or "")
    # Any of the four best steps would fit alone, and not all of them together.
    some = choose(BEGUN, max_compute=spent + 0.3 * BUDGETS[-1])
    assert 0 < sum(step.compute for step in some.steps) <= 0.3 * BUDGETS[-1]
    # What was asked for and is not trained yet is paid for.
    pending = {run_id(8, 0): BUDGETS[-1]}
    owed = BUDGETS[-1] - BEGUN[run_id(8, 0)]
    assert not choose(BEGUN, pending, max_compute=spent + owed * 1.001).steps


def test_a_search_ends_when_nothing_left_is_worth_its_compute() -> None:
    reached = {**EVERYWHERE, run_id(8, 2): BUDGETS[3]}
    decision = choose(reached, world="growing")
    assert not decision.steps
    assert "what is left would be worth less than 0.24" in (decision.stop or "")


def test_with_one_seed_runs_are_trained_in_order() -> None:
    plan = make_plan(GENERATIONS, seeds=(0,), budgets=BUDGETS)
    reached = start(plan)
    data, ids = trained(reached), {run.run_id for run in plan.runs}
    curves = tuple(curve for curve in data.curves if curve.run.run_id in ids)
    plan, readings = read_runs(plan, curves)
    data = replace(data, plan=plan, curves=curves, readings=readings)
    decision = decide(replace(question(data), count=2))
    assert [step.milestone for step in decision.steps] == [BUDGETS[3]] * 2
    assert "no spread" in decision.steps[0].why
