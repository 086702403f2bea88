"""`mode=clean` removes what no sweep needs, and nothing else."""

import os
import shutil
import time
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.clean import clean_sweeps
from isosweep.modes.directory import StoredSweep, read_sweep
from isosweep.store import checkpoints
from isosweep.store.drivers import drive
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import close
from isosweep.store.uses import note_use
from tests.conftest import make_config
from tests.modes.looked_after import printed, reported, submitted, sweep_in, terminal


def a_run(run: RunPaths, *, ended: bool = True, sweep: Path | None = None) -> RunPaths:
    """A run that a sweep has taken up, by default one of that directory that is not there."""
    run.root.mkdir(parents=True)
    note_use(run, sweep or run.root.parent.parent / "gone", "0" * 8)
    run.spec.write_text("{}")
    submission = submitted(run)
    if ended:
        close(submission, "finished", "")
    return run


def a_checkpoint(run: RunPaths, attempt: int, step: int) -> Path:
    checkpoint = run.attempt_checkpoints(attempt) / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"w" * 5000)
    checkpoints.complete(checkpoint)
    return checkpoint


def cleaned(directory: Path, *overrides: str) -> tuple[int, str]:
    console = terminal()
    config = make_config("mode=clean", f"sweeps_dir={directory}", *overrides)
    status = clean_sweeps(config, console)
    return status, printed(console)


def needed_run(sweep: StoredSweep, place: int = 0) -> RunPaths:
    run = sweep.paths.run(sweep.plan.runs[place].run_id)
    run.root.mkdir(parents=True)
    note_use(run, sweep.paths.root, sweep.plan.plan_id)
    run.spec.write_text("{}")
    close(submitted(run), "finished", "")
    return run


def moved_out(sweep: StoredSweep, place: Path) -> Path:
    """The sweep's directory, in a place of its own from now on."""
    place.parent.mkdir(parents=True, exist_ok=True)
    return sweep.paths.root.rename(place)


def test_a_run_goes_once_its_sweep_is_said_to_be_gone_and_that_is_confirmed(
    tmp_path: Path,
) -> None:
    sweep = sweep_in(tmp_path)
    kept, gone = needed_run(sweep), a_run(RunPaths(sweep.paths.runs / "of-no-sweep"))
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 1
    assert "1 run kept, which some sweep may need:" in said
    assert "of-no-sweep: gone uses it and cannot be read; forget=gone if that is gone" in said
    status, said = cleaned(tmp_path, "forget=gone")
    assert status == 0
    assert "1 run, " in said
    assert str(gone.root) in said
    assert "nothing was removed; confirm=true" in said
    assert gone.root.exists()
    status, said = cleaned(tmp_path, "forget=gone", "confirm=true")
    assert status == 0
    assert "removed 1" in said
    assert not gone.root.exists()
    assert kept.root.exists()
    assert "nothing is there" in cleaned(tmp_path)[1]


def test_a_run_of_an_earlier_version_has_no_list_and_stays(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run = RunPaths(sweep.paths.runs / "old")
    run.root.mkdir(parents=True)
    run.spec.write_text("{}")
    close(submitted(run), "finished", "")
    # What a sweep of this version notes later does not say who used it before.
    note_use(run, tmp_path / "gone", "0" * 8)
    status, said = cleaned(tmp_path, "forget=gone", "confirm=true")
    assert status == 1
    assert "old: an earlier version began it and kept no list" in said
    assert run.root.exists()


def test_a_run_that_a_sweep_elsewhere_took_up_stays(tmp_path: Path) -> None:
    first = sweep_in(tmp_path / "sweeps")
    other = sweep_in(tmp_path / "sweeps", f"sweep_dir={tmp_path}/lab2/mine")
    run = needed_run(first)
    note_use(run, other.paths.root, other.plan.plan_id)
    shutil.rmtree(first.paths.root)
    status, said = cleaned(tmp_path / "sweeps", f"forget={first.name}", "confirm=true")
    assert (status, run.root.exists()) == (0, True)
    # Not even while that one is out of reach.
    away = (tmp_path / "lab2").rename(tmp_path / "away")
    status, said = cleaned(tmp_path / "sweeps", "confirm=true")
    assert (status, run.root.exists()) == (1, True)
    mine = tmp_path / "lab2" / "mine"
    assert f"{mine} uses it and cannot be read; forget={mine}" in said
    away.rename(tmp_path / "lab2")
    with pytest.raises(SettingError, match=f"forget={mine}: is there.*rm -r {mine} first"):
        cleaned(tmp_path / "sweeps", f"forget={mine}", "confirm=true")
    with pytest.raises(SettingError, match="forget=nonsense: no run's list of sweeps has it"):
        cleaned(tmp_path / "sweeps", "forget=nonsense", "confirm=true")


def test_runs_and_a_sweep_elsewhere_that_move_together_stay_together(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    sweep = sweep_in(old / "sweeps", f"sweep_dir={old}/mine")
    run = needed_run(sweep)
    # A copy is no part of what it was copied from.
    shutil.copytree(old, new)
    copied = new / "sweeps" / "runs" / run.run_id
    assert read_sweep(new / "mine").paths.runs == new / "sweeps" / "runs"
    shutil.rmtree(old / "mine")
    assert cleaned(new / "sweeps", "confirm=true")[0] == 0
    assert copied.exists()
    assert cleaned(old / "sweeps", f"forget={old}/mine", "confirm=true")[0] == 0
    assert not run.root.exists()
    assert copied.exists()


def test_another_plan_in_the_place_of_a_sweep_says_nothing_of_it(tmp_path: Path) -> None:
    first = sweep_in(tmp_path, "name=one")
    run = needed_run(first)
    moved_out(first, tmp_path / "outside" / "one")
    sweep_in(tmp_path, "name=one", "grid.seeds=[7]")
    assert cleaned(tmp_path, "confirm=true")[0] == 1
    assert run.root.exists()


def test_a_plan_that_was_never_launched_goes_after_a_day(tmp_path: Path) -> None:
    plan, new, launched = (
        sweep_in(tmp_path, f"name={name}") for name in ("plan", "new", "launched")
    )
    drive(launched.paths.drivers)
    for sweep in (plan, launched):
        os.utime(sweep.paths.plan, (time.time() - 2 * 86400,) * 2)
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 0
    assert f"{plan.paths.root}  (planned more than a day ago, never launched)" in said
    there = [sweep.paths.root.exists() for sweep in (plan, new, launched)]
    assert there == [False, True, True]


def test_a_run_that_somebody_is_at_stays(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    alive = a_run(RunPaths(sweep.paths.runs / "of-no-sweep"), ended=False)
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 1
    assert "of-no-sweep: no sweep needs it, and it stays" in said
    assert alive.root.exists()


def test_a_plan_that_cannot_be_read_keeps_every_run(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    gone = a_run(RunPaths(sweep.paths.runs / "of-no-sweep"))
    sweep.paths.plan.write_text("{garbage")
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 1
    assert f"{sweep.paths.plan}: not JSON" in said
    assert gone.root.exists()


def test_links_are_never_followed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    needed_run(sweep)
    outside = a_run(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    linked = a_run(RunPaths(sweep.paths.runs / "of-no-sweep"))
    (linked.root / "data").symlink_to(tmp_path / "elsewhere")
    assert cleaned(tmp_path / "sweeps", "forget=gone", "confirm=true")[0] == 0
    assert outside.spec.exists()
    assert (sweep.paths.runs / "mine").is_symlink()
    assert not linked.root.exists()


def test_checkpoints_of_ended_runs_are_kept_as_the_sweep_says(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    ended, going = needed_run(sweep, 0), needed_run(sweep, 1)
    reported(ended, "finished", 1.0, sweep.plan.runs[0])
    reported(going, "interrupted", 0.5, sweep.plan.runs[1])
    old, last = a_checkpoint(ended, 1, 5), a_checkpoint(ended, 2, 9)
    between = [a_checkpoint(going, 1, 5), a_checkpoint(going, 1, 7)]
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 0
    assert "1 checkpoint, " in said
    assert "checkpoint.keep=resumable" in said
    assert not old.exists()
    assert last.exists()
    # One that goes on may need them.
    assert all(path.exists() for path in between)


def test_checkpoints_that_a_sweep_elsewhere_may_need_stay(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    place = f"sweep_dir={tmp_path}/lab2/mine"
    other = sweep_in(tmp_path / "sweeps", place, "checkpoint.keep=all")
    run = needed_run(sweep)
    note_use(run, other.paths.root, other.plan.plan_id)
    reported(run, "finished", 1.0, sweep.plan.runs[0])
    old, _ = a_checkpoint(run, 1, 5), a_checkpoint(run, 2, 9)
    assert cleaned(tmp_path / "sweeps", "confirm=true")[0] == 0
    assert old.exists()
    (tmp_path / "lab2").rename(tmp_path / "away")
    status, said = cleaned(tmp_path / "sweeps", "confirm=true")
    assert (status, old.exists()) == (1, True)
    assert "uses it and cannot be read" in said
    cleaned(tmp_path / "sweeps", f"forget={tmp_path}/lab2/mine", "confirm=true")
    assert not old.exists()


def test_leftovers_of_a_kill_go_when_they_are_a_day_old(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run = needed_run(sweep)
    old, new, other = (
        run.attempts.parent / name
        for name in (".1.json.123.0a1b2c3d", ".2.json.123.0a1b2c3d", ".hidden")
    )
    for path in (old, new, other):
        path.write_text("{")
    yesterday = time.time() - 2 * 86400
    for path in (old, other):
        os.utime(path, (yesterday, yesterday))
    assert cleaned(tmp_path, "confirm=true")[0] == 0
    assert not old.exists()
    assert new.exists()
    assert other.exists()
