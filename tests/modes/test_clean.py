"""`mode=clean` moves what no sweep needs, and nothing else."""

import os
import time
from pathlib import Path

import pytest

from isosweep.modes.clean import clean_sweeps
from isosweep.modes.directory import StoredSweep, sweep_paths
from isosweep.modes.stored import described_losses
from isosweep.plan.study import resolve
from isosweep.store.drivers import drive
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import close
from isosweep.training.progress import find_resume_point
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, printed, reported, submitted, sweep_in, terminal

LATELY = (time.time() - 4000,) * 2


def made(run: RunPaths, *, ended: bool = True) -> RunPaths:
    """A run that was trained."""
    run.root.mkdir(parents=True, exist_ok=True)
    run.spec.write_text("{}")
    submission = submitted(run)
    if ended:
        close(submission, "finished", "")
    return run


def of_no_sweep(runs: Path, *, ended: bool = True) -> RunPaths:
    """A run that no sweep's plan names."""
    return made(RunPaths(runs / "of-no-sweep"), ended=ended)


def needed(sweep: StoredSweep, place: int = 0) -> RunPaths:
    return made(sweep.paths.run(sweep.plan.runs[place].run_id))


def cleaned(directory: Path, *overrides: str, confirm: bool = True) -> tuple[int, str]:
    console = terminal()
    asked = (f"sweeps_dir={directory}", f"confirm={confirm}", *overrides)
    return clean_sweeps(make_config("mode=clean", *asked), console), printed(console)


def trashed(directory: Path) -> set[str]:
    """What lies in the directories of trash/."""
    return {str(path.relative_to(path.parents[1])) for path in directory.glob("trash/*/*/*")}


def test_a_run_that_no_plan_names_is_moved_and_nothing_is_lost(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    kept, gone = needed(sweep), of_no_sweep(sweep.paths.runs)
    status, said = cleaned(tmp_path, confirm=False)
    assert (status, gone.root.exists()) == (0, True)
    assert f"{gone.root}  (no sweep's plan names it)" in said
    assert "nothing was moved; confirm=true" in said
    status, said = cleaned(tmp_path)
    assert (status, gone.root.exists(), kept.root.exists()) == (0, False, True)
    assert trashed(tmp_path) == {"runs/of-no-sweep"}
    (moved,) = tmp_path.glob("trash/*")
    assert f"rm -r {moved}" in said
    assert (moved / "runs" / "of-no-sweep" / "spec.json").read_text() == "{}"
    assert "nothing to move" in cleaned(tmp_path)[1]


def test_a_plan_that_was_never_launched_is_moved_after_an_hour(tmp_path: Path) -> None:
    plan, new, launched = (sweep_in(tmp_path, f"name={name}") for name in ("plan", "new", "ran"))
    drive(launched.paths.drivers)
    for sweep in (plan, launched):
        os.utime(sweep.paths.plan, LATELY)
    status, said = cleaned(tmp_path)
    assert status == 0
    assert f"{plan.paths.root}  (never launched)" in said
    assert [each.paths.root.exists() for each in (plan, new, launched)] == [False, True, True]
    assert len([*tmp_path.glob("trash/*/plan/plan.json")]) == 1


def test_a_run_that_somebody_is_at_stays(tmp_path: Path) -> None:
    alive = of_no_sweep(sweep_in(tmp_path).paths.runs, ended=False)
    status, said = cleaned(tmp_path)
    assert (status, alive.root.exists()) == (1, True)
    assert f"{alive.root} stays: it has a live submission" in said


def test_a_run_that_is_taken_up_while_it_is_moved_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = of_no_sweep(sweep_in(tmp_path).paths.runs)
    rename = Path.rename

    def taken_up(path: Path, target: Path) -> Path:
        if path == gone.root:
            submitted(gone)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", taken_up)
    status, said = cleaned(tmp_path)
    assert (status, gone.spec.exists()) == (1, True)
    assert f"{gone.root} stays: it has a live submission" in said


def test_nothing_is_moved_where_a_plan_cannot_be_read(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    gone = of_no_sweep(sweep.paths.runs)
    sweep.paths.plan.write_text("{garbage")
    status, said = cleaned(tmp_path)
    assert (status, gone.root.exists()) == (1, True)
    assert f"{sweep.paths.plan}: not JSON" in said
    assert "nothing is moved" in said


def test_links_are_not_followed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    outside = made(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    assert cleaned(tmp_path / "sweeps")[0] == 0
    assert outside.spec.exists()
    assert (sweep.paths.runs / "mine").is_symlink()


def test_a_run_whose_checkpoints_were_deleted_begins_again_which_is_said_before(
    tmp_path: Path,
) -> None:
    sweep = sweep_in(tmp_path)
    run = needed(sweep)
    reported(run, "finished", 1.0, sweep.plan.runs[0])
    assert find_resume_point(run, 2).losses == (
        "no checkpoint to go on from is left of the run, which had ended (checkpoint.keep, or "
        "deleted); training goes on from step 0",
    )
    more = resolve(make_config(*PLAN, f"sweeps_dir={tmp_path}", "budget=[1e11,2e11]"))
    assert [*described_losses(more, sweep_paths(more))] == [
        f"{run.run_id}: no checkpoint to go on from is left (checkpoint.keep, or deleted): to "
        "be extended it is trained again from step 0"
    ]
