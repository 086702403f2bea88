"""`mode=clean` moves what no sweep needs, and nothing else."""

import os
import shutil
import time
from pathlib import Path

import pytest

from isosweep.modes import clean
from isosweep.modes.clean import clean_sweeps
from isosweep.modes.directory import StoredSweep, sweep_paths
from isosweep.modes.stored import described_losses
from isosweep.plan.study import resolve
from isosweep.store import checkpoints
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


def a_checkpoint(run: RunPaths, attempt: int, step: int) -> Path:
    checkpoint = run.attempt_checkpoints(attempt) / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"w" * 5000)
    checkpoints.complete(checkpoint)
    return checkpoint


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
    assert "nothing to remove" in cleaned(tmp_path)[1]


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


def test_checkpoints_of_ended_runs_alone_are_removed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    ended, going = needed(sweep, 0), needed(sweep, 1)
    reported(ended, "finished", 1.0, sweep.plan.runs[0])
    reported(going, "interrupted", 0.5, sweep.plan.runs[1])
    old, last = a_checkpoint(ended, 1, 5), a_checkpoint(ended, 2, 9)
    between = [a_checkpoint(going, 1, 5), a_checkpoint(going, 1, 7)]
    assert "nothing to remove" in cleaned(tmp_path)[1]
    status, said = cleaned(tmp_path, "checkpoint.keep=resumable")
    assert status == 0
    assert f"{old}  (checkpoint.keep=resumable)" in said
    assert not old.exists()
    # One that goes on may need them.
    assert all(path.exists() for path in (last, *between))


def test_checkpoints_of_runs_that_stayed_elsewhere_are_removed_there(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    run = needed(sweep)
    reported(run, "finished", 1.0, sweep.plan.runs[0])
    last = a_checkpoint(run, 1, 9)
    (tmp_path / "archive").mkdir()
    sweep.paths.root.rename(tmp_path / "archive" / sweep.name)
    assert cleaned(tmp_path / "archive", "checkpoint.keep=none")[0] == 0
    assert not last.exists()


def of_a_language_model(checkpoint: Path, states: int = int(2e9)) -> Path:
    """The same checkpoint with `states` bytes of optimiser states, of which the disk holds none."""
    with (checkpoint / "optimizer.pt").open("wb") as file:
        file.truncate(states)
    (checkpoint / "trainer_state.json").write_text("{}")
    return checkpoint


def an_ended_run(sweep: StoredSweep, place: int = 0, share: float = 1.0) -> tuple[RunPaths, Path]:
    run = needed(sweep, place)
    reported(run, "finished", share, sweep.plan.runs[place])
    return run, of_a_language_model(a_checkpoint(run, 1, 9))


def test_optimiser_states_of_ended_runs_go_where_the_command_says_so(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run, last = an_ended_run(sweep)
    status, said = cleaned(tmp_path, "checkpoint.keep=weights", confirm=False)
    assert status == 0
    assert f"2 GB  {last}  (its optimiser states, checkpoint.keep=weights)" in said
    assert (last / "optimizer.pt").exists()
    status, said = cleaned(tmp_path, "checkpoint.keep=weights")
    assert "1 of 1 moved or removed" in said
    assert {path.name for path in last.iterdir()} == {"model.safetensors"}
    # Nor what is no complete checkpoint any more.
    for asked in ("weights", "resumable"):
        assert "nothing to remove" in cleaned(tmp_path, f"checkpoint.keep={asked}")[1]
    assert (last / "model.safetensors").exists()
    # To be extended it begins again, which is said before.
    assert find_resume_point(run, 2).losses == (
        "no checkpoint to go on from is left of the run, which had ended (checkpoint.keep, or "
        "mode=clean); training goes on from step 0",
    )
    more = resolve(make_config(*PLAN, f"sweeps_dir={tmp_path}", "budget=[1e11,2e11]"))
    assert [*described_losses(more, sweep_paths(more))] == [
        f"{run.run_id}: no checkpoint to go on from is left (checkpoint.keep, or mode=clean): to "
        "be extended it is trained again from step 0"
    ]


def test_whole_checkpoints_of_ended_runs_go_where_the_command_says_so(tmp_path: Path) -> None:
    _, last = an_ended_run(sweep_in(tmp_path, "checkpoint.keep=all"))
    assert "nothing to remove" in cleaned(tmp_path, "checkpoint.keep=all")[1]
    assert "1 of 1 moved or removed" in cleaned(tmp_path, "checkpoint.keep=none")[1]
    assert not last.exists()


@pytest.mark.parametrize("keep", ["weights", "none"])
def test_what_a_sweep_is_to_extend_or_somebody_is_at_keeps_its_states(
    keep: str, tmp_path: Path
) -> None:
    run, last = an_ended_run(sweep_in(tmp_path))
    asked = f"checkpoint.keep={keep}"
    larger = sweep_in(tmp_path, "budget=[1e11,2e11]")
    # What was only planned extends nothing.
    assert str(last) in cleaned(tmp_path, asked, confirm=False)[1]
    drive(larger.paths.drivers)
    assert "nothing to remove" in cleaned(tmp_path, asked)[1]
    shutil.rmtree(larger.paths.root)
    # Somebody has taken it up again.
    submitted(run)
    cleaned(tmp_path, asked)
    assert (last / "optimizer.pt").exists()


def test_a_run_that_a_search_asks_no_more_of_is_as_good_as_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path, "search=frontier")
    drive(sweep.paths.drivers)
    run, last = an_ended_run(sweep, share=0.5)
    asked = "checkpoint.keep=weights"
    assert "nothing to remove" in cleaned(tmp_path, asked)[1]
    document = {"decision": {"stop": "spent"}, "open": [], "trials": {run.run_id: {}}}
    monkeypatch.setattr(clean, "stored_search", lambda sweep: document)
    assert "1 of 1 moved or removed" in cleaned(tmp_path, asked)[1]
    assert not (last / "optimizer.pt").exists()
