"""Designs of a plan's compute, and the search among them."""

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

from isosweep.analysis.simulation import designs as module
from isosweep.analysis.simulation.designs import (
    TOLERANCE,
    Scored,
    SearchedDesign,
    designs_of,
    num_sweeps,
    search,
    share_interval,
)
from isosweep.config.simulation import WORLDS
from isosweep.errors import SettingError
from isosweep.modes.simulate import simulate_sweeps
from isosweep.plan.cells import predicted
from isosweep.plan.study import Study, resolve
from tests.conftest import isosweep, make_config

SMALL_PLAN = ("budget=3e11", "grid.num_generations=[2,4,8,16]", "grid.problems_per_batch=[4,8]")

# Where problems cost next to nothing.
COSTLY = ("model=qwen-1.5b", "budget=1e20")


def study_of(*overrides: str) -> Study:
    return resolve(make_config(*overrides))


@pytest.mark.parametrize("overrides", [COSTLY, (*SMALL_PLAN, "grid.seeds=[5]")])
def test_designs_take_the_plans_compute_and_are_got_by_what_they_say(
    overrides: tuple[str, ...],
) -> None:
    study = study_of(*overrides)
    own, *others = designs_of(study, 6)
    assert own.is_the_plan
    assert own.plan is study.plan
    assert len(others) == 5
    for design in others:
        assert design.flops == pytest.approx(own.flops, rel=TOLERANCE)
        typed = study_of(*overrides, *design.overrides)
        assert typed.plan.plan_id == design.plan.plan_id
        assert typed.config.task.num_eval_problems == design.config.task.num_eval_problems
        spent = sum(predicted(run.planned_flops) + run.evaluation_flops for run in typed.plan.runs)
        assert design.flops == pytest.approx(spent)
        # Each could come to a verdict.
        assert len({run.num_generations for run in typed.plan.runs}) >= 3
        assert len({run.seed for run in typed.plan.runs}) >= 2
    assert len({design.plan.plan_id for design in (own, *others)}) == 6
    if overrides == COSTLY:
        assert {design.config.task.num_eval_problems for design in others} == {3072}
        assert own.config.task.num_eval_problems == 256


def test_a_plan_without_another_of_its_compute_is_refused() -> None:
    # For another seed there is nothing that could be taken away, and nothing to add without one.
    grid = ("grid.num_generations=[2,4,8]", "grid.problems_per_batch=[4]", "grid.seeds=[0,1]")
    study = study_of("budget=3e11", *grid, "task.num_eval_problems=32")
    with pytest.raises(SettingError, match=r"^simulation.designs=7: no other n, B, seeds and held"):
        designs_of(study, 7)


def stubbed(verdicts: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Let `verdicts(world, plan, problems)` say what a simulated sweep says."""
    asked: list[tuple[Any, ...]] = []

    def verdict(world: Any, plan: Any, config: Any, **given: Any) -> str:
        asked.append((world, plan.plan_id, given["seed"]))
        said: str = verdicts(world.name, plan, given["num_problems"])
        return said

    monkeypatch.setattr(module, "simulated_verdict", verdict)
    return asked


SEARCH = (*SMALL_PLAN, "simulation=search", "simulation.worlds=[plateau,slow_tail]")
TRUE = {"plateau": "saturated", "slow_tail": "growing"}


def test_the_design_that_decides_most_comes_first_and_the_worse_half_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = study_of(*SEARCH, "simulation.sweeps=8")
    designs = designs_of(study, 6)
    best, worst = designs[3].plan.plan_id, (designs[0].plan.plan_id, designs[4].plan.plan_id)

    def says(world: str, plan: Any, problems: int) -> str:
        if plan.plan_id == best:
            return TRUE[world]
        # What is false is worse than what is open.
        return "saturated" if plan.plan_id in worst and world == "slow_tail" else "grew"

    asked = stubbed(says, monkeypatch)
    found = search(study, designs, lambda line: None)
    assert found.scored[0].design.plan.plan_id == best
    assert found.scored[-1].design.plan.plan_id == worst[1]
    assert (found.scored[0].right, found.scored[0].false, found.scored[0].sweeps) == (16, 0, 16)
    assert (found.scored[-1].right, found.scored[-1].false) == (0, 2)
    assert found.tied == (True, False, False, False, False, False)
    # Two of eight sweeps for six designs, four for three of them, eight for two; and for the plan,
    # which stays although it is one of the worst.
    sweeps = sorted(one.sweeps for one in found.scored)
    assert sweeps == [4, 4, 8, 16, 16, 16]
    # Without those of the plan after its second.
    assert num_sweeps(6, 8, 2) == sum(sweeps) - 12
    assert found.scored[2].design.is_the_plan
    # Every design meets the same worlds, and no sweep twice.
    assert len({(id(world), seed[1]) for world, _, seed in asked}) == 2
    assert len({(plan, seed) for _, plan, seed in asked}) == len(asked) == sum(sweeps)


def test_a_design_is_held_against_what_is_true_of_the_whole_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = study_of(*SEARCH, "simulation.sweeps=1")
    own, *others = designs_of(study, 60)
    narrow = next(d for d in others if "grid.num_generations=[2,4,8]" in d.overrides)
    # At the edge of its n the best n may go on; over the plan's n it does not.
    stubbed(lambda world, plan, problems: "growing", monkeypatch)
    found = search(study, [own, narrow], lambda line: None)
    assert {one.false for one in found.scored} == {1}
    assert {world: truth.verdict for world, truth in found.truths.items()} == TRUE
    # Equal designs are told to be so, and the plan comes first.
    stubbed(lambda world, plan, problems: TRUE[world], monkeypatch)
    found = search(study, [narrow, own, *others[:2]], lambda line: None)
    assert found.scored[0].design.is_the_plan
    assert found.tied == (True,) * 4


def scored(right: int, open_: int) -> Scored:
    truth: Any = type("T", (), {"bears": lambda self, verdict: verdict != "fell"})()
    design: Any = SearchedDesign.__new__(SearchedDesign)
    counts = Counter({"saturated": right, "grew": open_})
    return Scored(design=design, truths={"plateau": truth}, verdicts={"plateau": counts})


def test_few_sweeps_do_not_tell_designs_apart() -> None:
    assert not scored(1, 3).is_worse_than(scored(3, 1))
    assert scored(10, 30).is_worse_than(scored(30, 10))
    assert not scored(3, 1).is_worse_than(scored(3, 1))


def test_intervals_of_shares_are_wilsons() -> None:
    for count, total in ((0, 4), (3, 16), (16, 16), (50, 200)):
        known = stats.binomtest(count, total).proportion_ci(0.9, method="wilson")
        assert share_interval(count, total) == pytest.approx((known.low, known.high), abs=1e-4)


def test_a_search_is_printed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(
        *SEARCH, f"sweeps_dir={tmp_path}", "simulation.sweeps=1", "simulation.designs=2"
    )
    for width in (80, 100):
        text = io.StringIO()
        assert simulate_sweeps(study, Console(file=text, width=width)) == 0
        lines = text.getvalue().splitlines()
        named = [line for line in lines if line[:2] in ("1:", "2:", "2=")]
        (second,) = (line for line in named if "the plan itself" not in line)
        assert max(len(line) for line in lines if "│" in line) <= width
        # What is simulated is seen once.
        stubbed(lambda world, plan, problems: TRUE[world], monkeypatch)
    (file,) = tmp_path.glob("*/simulation.json")
    document = json.loads(file.read_text())
    assert document["truths"] == TRUE
    own, other = sorted(document["designs"], key=lambda one: len(one["overrides"]))
    assert own["overrides"] == []
    assert " ".join(other["overrides"]) in second
    assert (
        sum(sum(counts.values()) for counts in other["verdicts"].values()) == other["sweeps"] == 2
    )
    assert set(document["settings"]["worlds"]) <= set(WORLDS)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("simulation.designs=1", "designs=1: is 0, or how many designs are compared, the plan"),
        ("simulation.designs=-1", "simulation.designs=-1: must be greater than or equal to 0"),
        (
            "simulation=search grid.num_generations=[2,4]",
            "simulation.designs=12: a search takes 3 n or more, and the plan has 2. Nearest choice "
            "that works: simulation.designs=0",
        ),
        (
            "simulation=search grid.axes={recipe.num_iterations:[1,2]}",
            "grid.axes=set: a simulation has no further axes",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_in_words(
    overrides: str, said: str, tmp_path: Path
) -> None:
    wrong = isosweep("mode=simulate", *overrides.split(), cwd=tmp_path, check=False)
    assert wrong.returncode == 2
    assert said in wrong.stderr
    assert not list(tmp_path.glob("sweeps/*/simulation.json"))
