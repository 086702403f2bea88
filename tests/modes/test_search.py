"""Sweeps whose runs a search asks for: killed, resumed, begun as a grid, and ended as one."""

import json
import shutil
import signal
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from isosweep.store.claims import highest
from isosweep.store.records import read_metrics, read_records
from tests.commands import Command, in_process
from tests.conftest import SMALL, in_ci, isosweep
from tests.modes.sweeps import QUIET, assert_same_records, runs, wait_until_some_run_trains
from tests.runs import log_lines

pytestmark = pytest.mark.train

# The sweep `straight`, searched.
GRID = ("budget=[6.4e9,1.28e10]", *SMALL, *QUIET)
SEARCH = (*GRID, "search=frontier")


def trials(cwd: Path) -> list[FrozenTrial]:
    """As anybody reads them who has Optuna."""
    (journal,) = cwd.glob("sweeps/*/search.journal")
    storage = JournalStorage(JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage).trials


def test_a_search_stops_by_itself_and_a_grid_goes_on_from_there(
    straight: Path, tmp_path: Path
) -> None:
    searched = isosweep(*SEARCH, "search.max_compute=2e10", cwd=tmp_path)
    assert "chooses one run after another, and how far" in searched.stdout
    assert "search: stopped: search.max_compute=2e+10 flops is spent" in searched.stdout
    assert "A search chose what was trained: 2 of 2 runs, 7" in searched.stdout
    assert "Runs that it left out are listed too; they are no failures." in next(
        tmp_path.glob("sweeps/*/analysis/report.html")
    ).read_text().replace("\n", " ")
    states = [trial.state for trial in trials(tmp_path)]
    assert sorted(states) == [TrialState.COMPLETE, TrialState.PRUNED]
    for trial in trials(tmp_path):
        assert trial.value == trial.intermediate_values[max(trial.intermediate_values)]
        assert trial.user_attrs["compute"] == pytest.approx(
            max(step["milestone"] for step in trial.user_attrs["steps"]), rel=0.05
        )
    status = in_process((*SEARCH, "mode=status", "runs=[seed:0]"), tmp_path).stdout
    assert "search: 2 of 2 runs were chosen; " in status
    assert ": search.max_compute=2e+10" in status
    document = json.loads(
        in_process((*GRID, "mode=status", "runs=[seed:0]", "format=json"), tmp_path).stdout
    )
    assert document["search"]["decision"]["stop"].startswith("search.max_compute=2e+10")
    whole = isosweep(*GRID, cwd=tmp_path)
    assert "search:" not in whole.stdout
    assert "search chose" not in whole.stdout
    assert_same_records(tmp_path, straight)
    _assert_trained_once(tmp_path)


def test_a_grid_goes_on_as_a_search_without_training_anything(
    straight: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    done = isosweep(*SEARCH, cwd=tmp_path)
    assert "search: stopped: every run of the plan has been trained" in done.stdout
    assert all(highest(run.attempts) == 1 for run in runs(tmp_path))
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.COMPLETE] * 2
    for run, trial in zip(runs(tmp_path), trials(tmp_path), strict=True):
        assert trial.value == read_records(run.records).records[-1].reward
        assert trial.user_attrs["steps"] == []


def test_any_sampler_and_pruner_of_optunas_may_choose(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    chosen = ("search=optuna", "search.sampler=optuna.samplers.RandomSampler")
    # One n more than was trained, which comes to the larger budget alone.
    wider = ("grid.num_generations=[2,4,8]", "search.pruner=optuna.pruners.NopPruner")
    done = isosweep(*GRID, *chosen, *wider, cwd=tmp_path)
    assert "n=8 B=4 seed=0 to 1.28e10 FLOPs (0): the sampler asks for it" in done.stdout
    assert "none is left that the pruner lets go on" in done.stdout
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.COMPLETE] * 3
    assert all(highest(run.attempts) == 1 for run in runs(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("how", in_ci((signal.SIGINT, signal.SIGKILL), signal.SIGKILL))
def test_a_search_that_is_ended_in_mid_run_goes_on_with_the_same_trials(
    how: signal.Signals, straight: Path, tmp_path: Path
) -> None:
    more = "launcher.max_parallel=2"
    driver = Command(*SEARCH, more, cwd=tmp_path, output=tmp_path.parent / tmp_path.name)
    wait_until_some_run_trains(tmp_path)
    driver.send_signal(how)
    driver.wait(timeout=120)
    before = trials(tmp_path)
    assert {trial.state for trial in before} == {TrialState.RUNNING}
    steps = {trial.number: trial.user_attrs["steps"] for trial in before}
    done = isosweep("mode=resume", cwd=tmp_path)
    assert "search: stopped: every run of the plan" in done.stdout
    after = trials(tmp_path)
    assert [trial.state for trial in after] == [TrialState.COMPLETE] * 2
    for trial in after[: len(before)]:
        assert trial.user_attrs["steps"][: len(steps[trial.number])] == steps[trial.number]
    assert_same_records(tmp_path, straight)
    _assert_trained_once(tmp_path)


def test_what_was_given_up_fails_the_search_and_is_not_asked_for_again(
    straight: Path, tmp_path: Path
) -> None:
    # The other run is there already: one is enough to fail, and the smaller budget.
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    settings = (*SEARCH[1:], "budget=6.4e9")
    broken = runs(tmp_path)[0]
    shutil.rmtree(broken.root)
    # A file where its checkpoints should go.
    broken.root.mkdir()
    broken.checkpoints.write_text("in the way")
    done = isosweep(*settings, "launcher.max_retries=0", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"failed: {broken.run_id}" in done.stdout
    states = {trial.user_attrs["run_id"]: trial.state for trial in trials(tmp_path)}
    assert states.pop(broken.run_id) == TrialState.FAIL
    assert list(states.values()) == [TrialState.COMPLETE]
    broken.checkpoints.unlink()
    again = isosweep(*settings, cwd=tmp_path)
    assert "it is tried again" not in again.stdout
    (first, *_, last) = [
        trial for trial in trials(tmp_path) if trial.user_attrs["run_id"] == broken.run_id
    ]
    assert last.user_attrs["continues"] == first.number
    assert last.state == TrialState.COMPLETE


@pytest.mark.slow
def test_of_two_commands_one_searches_and_the_other_leaves_it_to_it(tmp_path: Path) -> None:
    drivers = [
        Command(*SEARCH, cwd=tmp_path, output=tmp_path.parent / f"{tmp_path.name}-{name}")
        for name in ("one", "other")
    ]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0]
    told = [driver.written for driver in drivers]
    # A line for each step that is asked for, by whoever asks.
    assert sorted("search: " in text for text in told) == [False, True], told
    assert sorted(" is driven by " in text for text in told) == [False, True], told
    assert len({trial.user_attrs["run_id"] for trial in trials(tmp_path)}) == len(trials(tmp_path))
    _assert_trained_once(tmp_path)


def _assert_trained_once(cwd: Path) -> None:
    """No step of any run was taken twice by anybody."""
    for run in runs(cwd):
        taken = [line["step"] for line in log_lines(run.metrics) if "step" in line]
        kept = [line["step"] for line in read_metrics(run.metrics, run.records)]
        assert sorted(taken) == kept == list(range(1, len(kept) + 1))
