"""Which runs of a command's sweeps are started, when, and which are left."""

from pathlib import Path

import pytest

from isosweep.modes import queues as module
from isosweep.modes.follow import Driven
from isosweep.modes.queues import Queues, Sweep
from isosweep.modes.run import failed_for_good
from isosweep.plan.study import resolve
from isosweep.store.attempts import Status
from isosweep.store.paths import SweepPaths
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
    driven = Driven([sweep], terminal())
    driven.require_there()
    gone = (tmp_path / "sweeps").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="No such file") as raised:
        driven.require_there()
    assert raised.value.filename == str(paths.runs)
    gone.rename(tmp_path / "sweeps")
    driven.require_there()
    driven.release(0)


def test_runs_that_failed_for_good_are_left_by_a_queue(tmp_path: Path) -> None:
    stored = sweep_in(tmp_path, "grid.seeds=[0,1,2]")
    study = stored.study()
    ends = (Status.FAILED, Status.REFUSED, Status.STUCK, Status.LOST, Status.INTERRUPTED)
    for status, run in zip(ends, study.plan.runs, strict=False):
        submitted(stored.paths.run(run.run_id)).end(status, f"because: {status}")
    left = failed_for_good(study, stored.paths)
    given_up = {run.run_id for run in study.plan.runs[:3]}
    assert set(left) == given_up
    assert left[study.plan.runs[0].run_id] == "because: failed"
    sweep = Sweep(study=study, paths=stored.paths, left=left)
    queued = {item.run.run_id for item in sweep.items()}
    assert queued == {run.run_id for run in study.plan.runs} - given_up
