"""A search beside its driver: fills the places there are, and takes up what is there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.modes.sweeps import store_plan, sweep_paths
from isosweep.plan.study import resolve
from isosweep.search import frontier
from isosweep.search.asking import Search
from isosweep.search.candidates import Decision, Question, Step
from isosweep.store.attempts import Status
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import reported, submitted

SEARCH = (*SMALL, "budget=[6.4e9,1.28e10]", "search=frontier", "tracking=none")


def in_order(asked: Question) -> Decision:
    """Every run that is not asked for yet to its first milestone, larger n dearer."""
    steps = [
        Step(
            run_id=run.run_id,
            milestone=run.milestones[0],
            compute=float(run.num_generations),
            value=asked.config.max_compute or 1.0,
            why="it is next",
        )
        for run in asked.plan.runs
        if run.run_id not in asked.at.pending and run.run_id not in asked.at.closed
    ]
    return Decision(steps=tuple(steps[: asked.count]), considered=(), stop=None)


def opened(
    cwd: Path,
    *overrides: str,
    places: int,
    decide: Callable[[Question], Decision] = in_order,
) -> Search:
    """The search of a sweep of two n in `cwd`, of which nothing was trained."""
    study = resolve(make_config(*SEARCH, f"sweeps_dir={cwd}", *overrides))
    paths = sweep_paths(study)
    store_plan(study, paths)
    search = Search(study.plan, paths, study.config, places, decide)
    search.open()
    return search


def ids(steps: tuple[Step, ...]) -> list[str]:
    return [step.run_id.partition("-s0")[0] for step in steps]


def test_as_much_is_asked_for_as_there_is_place_for(tmp_path: Path) -> None:
    search = opened(tmp_path, places=1)
    assert ids(search.next({})) == ["tiny-sort-n2-B4"]
    assert [run.milestones for run in search.runs] == [(6.4e9,)]
    assert search.next({}) == ()
    assert search.stop is None
    # A look that finds nothing new decides nothing.
    search._next_look = 0.0
    search._decide = None  # type: ignore[assignment]
    assert search.next({}) == ()


def test_a_driver_killed_after_any_write_asks_for_the_same(tmp_path: Path) -> None:
    straight = opened(tmp_path, places=2, decide=frontier.decide)
    straight.next({})
    asked = {run.run_id: run.milestones for run in straight.runs}
    assert len(asked) == 2
    (journal,) = tmp_path.glob("*/search.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        # The last line that it wrote may be half there.
        journal.write_bytes(b"".join(lines[:count]) + lines[count][:-9])
        again = opened(tmp_path, places=2, decide=frontier.decide)
        again.next({})
        assert {run.run_id: run.milestones for run in again.runs} == asked
        assert len(again._study.asked) == 2
        trials = again._study._study.trials
        assert all(trial.params.keys() == {"n", "B", "seed"} for trial in trials)


def test_what_is_given_up_frees_a_place_and_is_not_asked_for_again(tmp_path: Path) -> None:
    search = opened(tmp_path, places=1)
    (first,) = search.next({})
    search._next_look = 0.0
    (second,) = search.next({first.run_id: "it broke"})
    assert second.run_id != first.run_id
    search._next_look = 0.0
    gone = {first.run_id: "it broke", second.run_id: "it broke too"}
    assert search.next(gone) == ()
    assert search.stop == "no run is left that could be trained further"
    assert [asked.state for asked in search._study.asked.values()] == ["FAIL", "FAIL"]


def test_a_run_that_ended_without_a_reward_ends_no_search(tmp_path: Path) -> None:
    search = opened(tmp_path, places=1)
    (first,) = search.next({})
    (run,) = search.runs
    reported(submitted(search._paths.run(run.run_id)), Status.FINISHED, 1.0, run)
    search._next_look = 0.0
    (second,) = search.next({})
    assert search.stop is None
    assert second.run_id != first.run_id


def test_variants_share_the_places_and_the_compute(tmp_path: Path) -> None:
    axes = "grid.axes={recipe.num_iterations:[1,2]}"
    search = opened(tmp_path, axes, "search.max_compute=1e10", places=3)
    steps = search.next({})
    # By value for compute, over both.
    assert ids(steps) == ["tiny-sort-n2-B4", "tiny-sort-n2-B4", "tiny-sort-n4-B4"]
    assert len({step.run_id for step in steps}) == 3
    assert {step.value for step in steps} == {0.5e10}


@pytest.mark.parametrize(("kind", "questions"), [("frontier", 2), ("optuna", 1)])
def test_samplers_choose_among_variants_and_others_within_each(
    tmp_path: Path, kind: str, questions: int
) -> None:
    asked: list[Question] = []

    def decide(question: Question) -> Decision:
        asked.append(question)
        return in_order(question)

    axes = "grid.axes={recipe.num_iterations:[1,2]}"
    opened(tmp_path, f"search={kind}", axes, places=3, decide=decide).next({})
    assert [len(each.plan.axes) for each in asked] == [2 // questions] * questions
    assert sum(len(each.data.curves) for each in asked) == 4
