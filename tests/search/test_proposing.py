"""A proposal of further runs: what is left of the plan, and what lies just beyond it."""

from dataclasses import replace

import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.statistics.verdict import OpenEnd
from isosweep.config.base import replaced
from isosweep.search import proposing
from isosweep.search.proposing import Proposal, Stop, best_n, first_n, propose, widened
from tests.analysis.sweeps import make_plan
from tests.search.sweeps import ANALYSIS, BUDGETS, GENERATIONS, PLAN, recorded, run_id, trained

# The verdict of n*, the best n, and not of the smallest that is good enough.
OF_BEST = replaced(ANALYSIS, quantity="best")
WIDE = make_plan((*GENERATIONS, 256), seeds=range(5), budgets=(*BUDGETS, 3e11))


def wide(world: str, reached: dict[str, float]) -> SweepData:
    kept = {
        name: tuple(r for r in records if r.compute.flops <= reached.get(name, -1.0) * 1.05)
        for name, records in recorded(world).items()
    }
    for run in WIDE.runs:
        kept.setdefault(run.run_id, ())
    return simulated_sweep(WIDE, kept)


def proposal(world: str, reached: dict[str, float], most: float) -> Proposal:
    return propose(trained(reached, world), wide(world, reached), ANALYSIS, most, 0)


HALF = {run_id(n, seed): 1e10 for n in GENERATIONS for seed in range(2)}


def test_what_is_proposed_keeps_to_its_compute_and_comes_by_value() -> None:
    found = proposal("plateau", HALF, 2e11)
    assert found.stop is None
    assert 0 < sum(step.compute for step in found.steps) <= 2e11
    assert all(step.compute == step.milestone - step.reached for step in found.steps)
    agree = [found.agree, *(step.agree for step in found.steps)]
    assert agree == sorted(agree)
    # A run is proposed once: to where it goes, and not a part at a time.
    assert len({step.run.run_id for step in found.steps}) == len(found.steps)


def test_without_two_seeds_nothing_is_valued() -> None:
    found = proposal("plateau", {run_id(8, 0): 1e10}, 1e12)
    assert found.steps == ()
    assert found.stop == Stop(kind="no spread")
    assert (found.chances, found.agree, found.loss) == ({}, 0.0, None)


def test_a_sweep_that_is_decided_needs_nothing() -> None:
    whole = {run.run_id: BUDGETS[-1] for run in PLAN.runs}
    # An n that loses nothing anywhere: any margin decides it.
    config = replaced(ANALYSIS, margin=0.5)
    found = propose(trained(whole, "constant"), wide("constant", whole), config, 1e12, 0)
    assert found.steps == ()
    stop = found.stop
    assert stop is not None
    assert (stop.kind, stop.verdict, stop.margin) == ("decided", "n does not matter", 0.5)
    assert stop.chance == max(found.chances.values()) > 0.9


def within(data: SweepData, least: int, most: int) -> SweepData:
    """The same sweep as if no other n had been run."""

    def kept(n: int) -> bool:
        return least <= n <= most

    return replace(
        data,
        plan=replace(
            data.plan,
            cells=tuple(c for c in data.plan.cells if kept(c.num_generations)),
            runs=tuple(r for r in data.plan.runs if kept(r.num_generations)),
        ),
        curves=tuple(c for c in data.curves if kept(c.run.num_generations)),
        readings=tuple(r for r in data.readings if kept(r.cell.num_generations)),
    )


WHOLE = {run.run_id: BUDGETS[-1] for run in PLAN.runs}


def test_between_the_best_n_and_its_neighbours_others_are_considered() -> None:
    data = trained(WHOLE, "plateau")
    best = best_n(data)
    assert best is not None
    further = widened(PLAN, data)
    assert further
    assert not set(further) & set(GENERATIONS)
    assert all(best / 2 <= n <= 2 * best for n in further if n < GENERATIONS[-1])


@pytest.mark.parametrize(("largest", "above"), [(32, {64}), (64, {128}), (128, set())])
def test_near_the_edge_twice_the_largest_n_is_considered(largest: int, above: set[int]) -> None:
    cut = within(trained(WHOLE, "constant"), 0, largest)
    assert best_n(cut) == 32
    assert {n for n in widened(cut.plan, cut) if n > largest} == above


def test_an_n_beyond_the_grid_is_valued_as_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not identified, and the best n seems to be the second largest: no n comes first.
    monkeypatch.setattr(proposing, "_LEAST", 0.0)
    reached = {run.run_id: BUDGETS[-1] for run in PLAN.runs if run.seed < 2}
    own = trained(reached, "constant")
    assert (best_n(own), first_n(own, ANALYSIS)) == (64, None)
    found = propose(own, wide("constant", reached), ANALYSIS, 5e12, 0)
    beyond = [step for step in found.steps if step.run.num_generations == 256]
    assert {step.like for step in beyond} == {128}
    assert any(step.verdict > 0 for step in beyond)


def test_the_n_that_the_report_wants_added_is_proposed_however_sure_the_verdict() -> None:
    # n* grows past the grid: `growing`, surely, and larger n decide where it goes.
    cut = within(trained(WHOLE, "slow_tail"), 0, 32)
    n = first_n(cut, OF_BEST)
    assert n == 64
    # The smallest n that is good enough lies inside the grid.
    assert first_n(cut, replaced(ANALYSIS, quantity="enough")) is None
    found = propose(cut, wide("slow_tail", {}), OF_BEST, 1e12, 0)
    assert found.stop is None
    assert {step.run.num_generations for step in found.steps} == {n}
    assert {step.run.seed for step in found.steps} == {run.seed for run in cut.plan.runs}
    assert all(step.milestone == BUDGETS[-1] for step in found.steps)
    assert {step.like for step in found.steps} == {32}
    little = propose(cut, wide("slow_tail", {}), OF_BEST, BUDGETS[-1], 0)
    assert len(little.steps) == 1
    none = propose(cut, wide("slow_tail", {}), OF_BEST, BUDGETS[0], 0)
    assert none.steps == ()
    assert none.stop == Stop(kind="out of reach", n=(64,), end=OpenEnd(kind="above", edge=32))


def test_runs_of_the_sweep_itself_come_first() -> None:
    # At the largest budgets only the largest n are known: that n* fell to them, or rose, is not.
    ahead = GENERATIONS[-2:]
    reached = {
        run.run_id: BUDGETS[-1] if run.num_generations in ahead else BUDGETS[0] for run in PLAN.runs
    }
    found = proposal("constant", reached, 1e12)
    assert found.steps == ()
    assert found.stop == Stop(kind="behind", n=GENERATIONS[:-2], budget=BUDGETS[-1])
    assert found.chances == {}
    # Of a search they were left out on purpose.
    own = replace(trained(reached, "constant"), config_document={"search": {"name": "frontier"}})
    searched = propose(own, wide("constant", reached), ANALYSIS, 1e12, 0)
    assert searched.stop is None or searched.stop.kind != "behind"


def test_n_below_the_grid_are_proposed_where_the_best_may_lie_there() -> None:
    least = GENERATIONS[-3]
    cut = within(trained(WHOLE, "constant"), least, GENERATIONS[-1])
    found = propose(cut, wide("constant", {}), replaced(OF_BEST, margin=0.001), 1e12, 0)
    assert {step.run.num_generations for step in found.steps} == {least // 2}
    assert {step.like for step in found.steps} == {least}
