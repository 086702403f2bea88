"""Which runs of a command's sweeps are started, when, and which are left."""

from pathlib import Path

import pytest

from isosweep.modes import queues as module
from isosweep.modes.queues import Queues, Sweep
from isosweep.modes.run import failed_for_good
from isosweep.modes.watching import Watching
from isosweep.plan.study import resolve
from isosweep.store.drivers import Claim, drive
from isosweep.store.paths import SweepPaths
from isosweep.store.submissions import Outcome, close, request_cancel
from tests.conftest import SMALL, make_config
from tests.launchers.fake import FakeLauncher, finishes
from tests.modes.looked_after import submitted, sweep_in, terminal


def test_queues_on_the_same_places_of_this_machine_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchers = [FakeLauncher(finishes), FakeLauncher(finishes), FakeLauncher(finishes)]
    launchers[2].places = False
    order = iter(launchers)
    monkeypatch.setattr(module, "make_launcher", lambda config: next(order))
    # Each has a launcher of its own settings.
    studies = [
        resolve(make_config(*SMALL, f"budget={budget}", f"launcher.max_retries={tries}"))
        for tries, budget in enumerate((6.4e9, 1.28e10, 2.56e10))
    ]
    shared = [
        Sweep(study=study, paths=SweepPaths(tmp_path / str(number), tmp_path / f"runs{number}"))
        for number, study in enumerate(studies)
    ]
    queues = Queues(lambda line: None)
    queues.add(shared)
    while queues.all[0].busy:
        queues.step()
        assert launchers[0].submitted
        assert not launchers[1].submitted, "both would be on the same devices"
        assert launchers[2].submitted, "a scheduler has places of its own"
    while queues.busy:
        queues.step()
    assert launchers[1].submitted
    assert not queues.failed


def test_a_sweep_whose_files_are_away_is_named(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "sweeps" / "one", tmp_path / "sweeps" / "runs")
    for directory in (paths.root, paths.runs):
        directory.mkdir(parents=True)
        (directory / "plan.json").write_text("")
    sweep = Sweep(study=resolve(make_config(*SMALL)), paths=paths)
    watching = Watching([sweep], terminal())
    watching.require_there()
    gone = (tmp_path / "sweeps").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="No such file") as raised:
        watching.require_there()
    assert raised.value.filename == str(paths.runs)
    gone.rename(tmp_path / "sweeps")
    watching.require_there()


def test_runs_that_failed_for_good_are_left_by_a_queue(tmp_path: Path) -> None:
    stored = sweep_in(tmp_path, "grid.seeds=[0,1,2]")
    study = stored.study()
    outcomes: tuple[Outcome, ...] = ("failed", "refused", "stuck", "lost", "interrupted")
    for outcome, run in zip(outcomes, study.plan.runs, strict=False):
        close(submitted(stored.paths.run(run.run_id)), outcome, f"because: {outcome}")
    left = failed_for_good(study, stored.paths)
    given_up = {run.run_id for run in study.plan.runs[:3]}
    assert set(left) == given_up
    assert left[study.plan.runs[0].run_id] == "because: failed"
    sweep = Sweep(study=study, paths=stored.paths, left=left)
    queued = {item.run.run_id for item in sweep.items()}
    assert queued == {run.run_id for run in study.plan.runs} - given_up


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "requested"])
def test_what_was_cancelled_before_a_resume_is_trained_when_its_driver_leaves(
    tmp_path: Path, confirmed: bool
) -> None:
    """mode=run follows, mode=cancel returns, mode=resume comes, mode=run sees it all and leaves."""
    stored = sweep_in(tmp_path)
    first, second, *_ = (run.run_id for run in stored.plan.runs)
    driver = drive(stored.paths.drivers)
    assert isinstance(driver, Claim)
    submission = submitted(stored.paths.run(first))
    request_cancel(submission, "ada")
    if confirmed:
        close(submission, "cancelled", "ada")
    resumed = Watching([Sweep(study=stored.study(), paths=stored.paths)], terminal())
    assert resumed.claim() == ([], [])
    if not confirmed:
        close(submission, "cancelled", "ada")
    # What is cancelled from now on is what both are to leave alone.
    close(submitted(stored.paths.run(second)), "cancelled", "bob")
    driver.release(1, {first: "cancelled by ada", second: "cancelled by bob"})
    (claimed,), completed = resumed.claim()
    assert not completed
    assert claimed.left == {second: "cancelled by bob"}
    queued = [item.run.run_id for item in claimed.items()]
    assert first in queued
    assert second not in queued
    resumed.release(0)


def test_what_a_driver_gives_up_is_given_up_for_who_watches_it(tmp_path: Path) -> None:
    stored = sweep_in(tmp_path)
    first, second, *_ = (run.run_id for run in stored.plan.runs)
    driver = drive(stored.paths.drivers)
    assert isinstance(driver, Claim)
    # Its driver tries this one again.
    close(submitted(stored.paths.run(second)), "failed", "out of memory")
    sweep = Sweep(study=stored.study(), paths=stored.paths)
    watching = Watching([sweep], terminal())
    assert watching.claim() == ([], [])
    close(submitted(stored.paths.run(first)), "cancelled", "ada")
    close(submitted(stored.paths.run(second)), "failed", "out of memory")
    driver.release(1, {first: "cancelled by ada", second: "out of memory"})
    claimed, ((completed, _),) = watching.claim()
    assert not claimed
    assert completed is sweep
