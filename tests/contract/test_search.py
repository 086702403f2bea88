"""A search trains what a grid would, less of it, and goes on after whatever happened to it."""

import shutil
import signal
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from tests.contract.surface import (
    TINY,
    TWO_RUNS,
    isosweep,
    records_of,
    runs_of,
    start,
    status_of,
    wait_until_training,
)

pytestmark = pytest.mark.train
SEARCH = (*TWO_RUNS, "search=frontier")


def trials(cwd: Path) -> list[FrozenTrial]:
    """As anybody reads them who has Optuna."""
    (journal,) = cwd.glob("sweeps/*/search.journal")
    storage = JournalStorage(JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage).trials


def trained_once(cwd: Path) -> bool:
    """Whether no step of any run was taken twice by anybody."""
    return all(run.trained == list(range(1, len(run.trained) + 1)) for run in runs_of(cwd))


def test_a_search_stops_by_itself_and_a_grid_goes_on_from_there(
    straight: Path, tmp_path: Path
) -> None:
    searched = isosweep(*SEARCH, "search.max_compute=2e10", cwd=tmp_path)
    assert "search: stopped: search.max_compute=2e+10 flops is spent" in searched.stdout
    assert "A search chose what was trained: 2 of 2 runs, 7" in searched.stdout
    report = next(tmp_path.glob("sweeps/*/analysis/report.html")).read_text()
    assert "Runs that it left out are listed too; they are no failures." in " ".join(report.split())
    assert sorted(t.state for t in trials(tmp_path)) == [TrialState.COMPLETE, TrialState.PRUNED]
    for trial in trials(tmp_path):
        assert trial.value == trial.intermediate_values[max(trial.intermediate_values)]
        assert trial.user_attrs["compute"] == pytest.approx(
            max(step["milestone"] for step in trial.user_attrs["steps"]), rel=0.05
        )
    stop = status_of(tmp_path)["search"]["decision"]["stop"]
    assert stop.startswith("search.max_compute=2e+10")
    whole = isosweep(*TWO_RUNS, cwd=tmp_path)
    assert "search:" not in whole.stdout
    assert "search chose" not in whole.stdout
    assert records_of(tmp_path) == records_of(straight)
    assert trained_once(tmp_path)


def test_a_grid_goes_on_as_a_search_without_training_anything(
    straight: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    done = isosweep(*SEARCH, cwd=tmp_path)
    assert "search: stopped: every run of the plan has been trained" in done.stdout
    assert [run.attempts for run in runs_of(tmp_path)] == [1, 1]
    for run, trial in zip(runs_of(tmp_path), trials(tmp_path), strict=True):
        successes = run.records[max(run.records)]["successes"]
        assert trial.state == TrialState.COMPLETE
        assert trial.value == sum(successes) / (2 * len(successes))
        assert trial.user_attrs["steps"] == []


@pytest.mark.slow
def test_a_search_that_is_killed_in_mid_run_goes_on_with_the_same_trials(
    straight: Path, tmp_path: Path
) -> None:
    driver = start(tmp_path, *SEARCH, "launcher.max_parallel=2")
    wait_until_training(tmp_path)
    driver.send_signal(signal.SIGKILL)
    driver.wait(timeout=120)
    steps = {trial.number: trial.user_attrs["steps"] for trial in trials(tmp_path)}
    done = isosweep("mode=resume", cwd=tmp_path)
    assert "search: stopped: every run of the plan" in done.stdout
    after = trials(tmp_path)
    assert [trial.state for trial in after] == [TrialState.COMPLETE] * 2
    for trial in after[: len(steps)]:
        assert trial.user_attrs["steps"][: len(steps[trial.number])] == steps[trial.number]
    assert records_of(tmp_path) == records_of(straight)
    assert trained_once(tmp_path)


def test_what_was_given_up_fails_the_search_and_is_tried_again_when_asked(
    straight: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    settings = ("budget=6.4e9", *TINY, "search=frontier")
    broken = runs_of(tmp_path)[0].root
    shutil.rmtree(broken)
    # A file where its checkpoints should go.
    broken.mkdir()
    (broken / "checkpoints").write_text("in the way")
    done = isosweep(*settings, "launcher.max_retries=0", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"failed: {broken.name}" in done.stdout
    states = {trial.user_attrs["run_id"]: trial.state for trial in trials(tmp_path)}
    assert states.pop(broken.name) == TrialState.FAIL
    assert list(states.values()) == [TrialState.COMPLETE]
    (broken / "checkpoints").unlink()
    isosweep(*settings, cwd=tmp_path)
    (first, *_, last) = [t for t in trials(tmp_path) if t.user_attrs["run_id"] == broken.name]
    assert last.user_attrs["continues"] == first.number
    assert last.state == TrialState.COMPLETE
