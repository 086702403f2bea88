"""`mode=clean` removes what no sweep needs, and nothing else."""

import os
import time
from pathlib import Path

from isosweep.modes.clean import clean_sweeps
from isosweep.modes.directory import StoredSweep
from isosweep.store import checkpoints
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import close
from tests.conftest import make_config
from tests.modes.looked_after import printed, reported, submitted, sweep_in, terminal


def a_run(run: RunPaths, *, ended: bool = True) -> RunPaths:
    run.root.mkdir(parents=True)
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
    status = clean_sweeps(make_config(f"sweeps_dir={directory}", *overrides), console)
    return status, printed(console)


def needed_run(sweep: StoredSweep, place: int = 0) -> RunPaths:
    return a_run(sweep.paths.run(sweep.plan.runs[place].run_id))


def test_a_run_that_no_plan_names_goes_once_it_is_confirmed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    kept, gone = needed_run(sweep), a_run(RunPaths(sweep.paths.runs / "of-no-sweep"))
    status, said = cleaned(tmp_path)
    assert status == 0
    assert "1 run, " in said
    assert str(gone.root) in said
    assert "nothing was removed; confirm=true" in said
    assert gone.root.exists()
    status, said = cleaned(tmp_path, "confirm=true")
    assert status == 0
    assert "removed 1" in said
    assert not gone.root.exists()
    assert kept.root.exists()
    assert "nothing is there" in cleaned(tmp_path)[1]


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


def test_a_sweep_that_lies_elsewhere_keeps_the_runs_that_it_submitted(tmp_path: Path) -> None:
    directory = tmp_path / "sweeps"
    elsewhere = directory / "somewhere"  # where looked_after's submissions come from
    sweep = sweep_in(directory, f"sweep_dir={elsewhere}")
    run = needed_run(sweep)
    # Out of the list of sweeps, as a directory that lies outside is.
    hidden = tmp_path / "outside"
    elsewhere.rename(hidden)
    elsewhere.symlink_to(hidden)
    assert cleaned(directory, "confirm=true")[0] == 0
    assert run.root.exists()


def test_links_are_never_followed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    needed_run(sweep)
    outside = a_run(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    linked = a_run(RunPaths(sweep.paths.runs / "of-no-sweep"))
    (linked.root / "data").symlink_to(tmp_path / "elsewhere")
    assert cleaned(tmp_path / "sweeps", "confirm=true")[0] == 0
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
