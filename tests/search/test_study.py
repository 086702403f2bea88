"""The search as an Optuna study: what is written is read again, whoever ended in the middle."""

import shutil
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from isosweep.config.study import SearchConfig
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.candidates import Decision, Step
from isosweep.search.study import SearchStudy, read_search
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config, plan_of

FRONTIER = SearchConfig(name="frontier")


@pytest.fixture
def plan() -> Plan:
    return plan_of(make_config(*SMALL, "budget=[6.4e9,1.28e10]"))


@pytest.fixture
def paths(tmp_path: Path) -> SweepPaths:
    (tmp_path / "sweep").mkdir()
    return SweepPaths(tmp_path / "sweep", tmp_path / "runs")


def step(plan: Plan, place: int, milestone: float) -> Step:
    run_id = plan.runs[place].run_id
    return Step(run_id=run_id, milestone=milestone, compute=6.4e9, value=0.01, why="it is next")


def by_id(plan: Plan) -> dict[str, PlannedRun]:
    return {run.run_id: run for run in plan.runs}


def asked(plan: Plan, paths: SweepPaths) -> SearchStudy:
    """A study that both runs are asked of, the second one twice."""
    study, runs = SearchStudy(plan, paths), by_id(plan)
    study.ask(runs, [step(plan, 0, 6.4e9), step(plan, 1, 6.4e9)], {"cells": 0})
    study.ask(runs, [step(plan, 1, 1.28e10)], {"cells": 1})
    return study


def trials(plan: Plan, paths: SweepPaths) -> list[optuna.trial.FrozenTrial]:
    """As anybody reads them who has Optuna."""
    storage = JournalStorage(JournalFileBackend(str(paths.search)))
    return optuna.load_study(study_name=plan.plan_id, storage=storage).trials


def test_a_run_that_was_told_is_asked_again_by_a_trial_that_continues_it(
    plan: Plan, paths: SweepPaths
) -> None:
    study = asked(plan, paths)
    run = plan.runs[0]
    study.tell(study.asked[run.run_id], "PRUNED", "the search stopped")
    study.ask({run.run_id: run}, [step(plan, 0, 1.28e10)], {})
    assert study.asked[run.run_id].number == 2
    assert study.asked[run.run_id].state == "RUNNING"
    told, _, again = trials(plan, paths)
    assert told.user_attrs["ended"] == "the search stopped"
    assert again.user_attrs["continues"] == 0


def test_who_looks_sees_what_was_asked_and_decided(plan: Plan, paths: SweepPaths) -> None:
    assert read_search(plan, paths) is None
    study = asked(plan, paths)
    steps = (step(plan, 1, 1.28e10),)
    study.note(Decision(steps=steps, considered=(), stop=None, loss=0.1), {})
    seen = read_search(plan, paths)
    assert seen is not None
    assert list(seen["asked"].values()) == [6.4e9, 1.28e10]
    assert seen["open"] == [run.run_id for run in plan.runs]
    steps_of = seen["trials"][plan.runs[1].run_id]["steps"]
    assert [each["known"] for each in steps_of] == [{"cells": 0}, {"cells": 1}]
    assert seen["decision"]["steps"][0]["why"] == "it is next"
    assert seen["decision"]["loss"] == 0.1
    paths.search.write_bytes(b"\xfe\x00\n")
    with pytest.raises(SettingError, match=r"search\.journal cannot be opened"):
        read_search(plan, paths)


def test_values_of_axes_are_parameters(paths: SweepPaths) -> None:
    axes = "grid.axes={recipe.num_iterations:[1,2],recipe:[tiny,dapo]}"
    plan = plan_of(make_config(*SMALL, "budget=[1.28e10]", axes))
    steps = [step(plan, place, 1.28e10) for place in range(len(plan.runs))]
    SearchStudy(plan, paths).ask(by_id(plan), steps, {})
    for run, trial in zip(plan.runs, trials(plan, paths), strict=True):
        assert {name: trial.params[name] for name in run.axes} == run.axes


def test_a_sweep_that_was_copied_or_has_another_path_goes_on_with_its_journal(
    plan: Plan, paths: SweepPaths, tmp_path: Path
) -> None:
    before = asked(plan, paths).asked
    shutil.copytree(paths.root, tmp_path / "copies" / "sweep")
    copied = SweepPaths(tmp_path / "copies" / "sweep", tmp_path / "runs")
    assert SearchStudy(plan, copied).asked == before


@pytest.mark.parametrize("kind", ["garbage", "directory"])
def test_a_journal_that_cannot_be_read_is_refused_with_the_way_out(
    plan: Plan, paths: SweepPaths, kind: str
) -> None:
    if kind == "directory":
        paths.search.mkdir()
    else:
        paths.search.write_bytes(b"\xfe\x00 no line of a journal\n")
    with pytest.raises(SettingError, match=r"cannot be opened .*mv .*search\.journal\.old, and"):
        SearchStudy(plan, paths)
    paths.search.rename(f"{paths.search}.old")
    assert not SearchStudy(plan, paths).asked
