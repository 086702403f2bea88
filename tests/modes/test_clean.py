"""`mode=clean` removes what no sweep needs, and nothing else."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes import needed as needed_module
from isosweep.modes.clean import clean_sweeps
from isosweep.modes.directory import StoredSweep, read_sweep, sweep_paths
from isosweep.modes.follow import _tell_disk
from isosweep.modes.queues import Sweep
from isosweep.modes.stored import described_losses
from isosweep.plan.study import resolve
from isosweep.store import checkpoints
from isosweep.store.drivers import drive
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import close
from isosweep.store.uses import note_use
from isosweep.training.progress import find_resume_point
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, printed, reported, submitted, sweep_in, terminal

YESTERDAY = (time.time() - 2 * 86400,) * 2
LATELY = (time.time() - 4000,) * 2


def made(run: RunPaths, *, ended: bool = True) -> RunPaths:
    """A run that was trained, which no sweep has taken up."""
    run.root.mkdir(parents=True, exist_ok=True)
    run.spec.write_text("{}")
    submission = submitted(run)
    if ended:
        close(submission, "finished", "")
    return run


def of_no_sweep(runs: Path, *, ended: bool = True) -> RunPaths:
    """A run that a sweep took up which is not there."""
    run = RunPaths(runs / "of-no-sweep")
    run.root.mkdir(parents=True)
    note_use(run, runs.parent / "gone", "0" * 8)
    return made(run, ended=ended)


def needed(sweep: StoredSweep, place: int = 0) -> RunPaths:
    run = sweep.paths.run(sweep.plan.runs[place].run_id)
    run.root.mkdir(parents=True)
    note_use(run, sweep.paths.root, sweep.plan.plan_id)
    return made(run)


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


def test_a_run_goes_once_its_sweep_is_said_to_be_gone_and_that_is_confirmed(
    tmp_path: Path,
) -> None:
    sweep = sweep_in(tmp_path)
    kept, gone = needed(sweep), of_no_sweep(sweep.paths.runs)
    status, said = cleaned(tmp_path)
    assert status == 1
    assert "1 run kept, since a sweep may need them:" in said
    assert "of-no-sweep: gone uses it and cannot be read; forget=gone if that is gone" in said
    status, said = cleaned(tmp_path, "forget=gone", confirm=False)
    assert (status, gone.root.exists()) == (0, True)
    assert "1 run, " in said
    assert str(gone.root) in said
    assert "nothing was removed; confirm=true" in said
    status, said = cleaned(tmp_path, "forget=gone")
    assert (status, gone.root.exists(), kept.root.exists()) == (0, False, True)
    assert "removed 1" in said
    assert "nothing to remove" in cleaned(tmp_path)[1]


def test_a_run_of_an_earlier_version_has_no_list_and_stays(tmp_path: Path) -> None:
    run = made(RunPaths(sweep_in(tmp_path).paths.runs / "old"))
    # What a sweep of this version notes later does not say who used it before.
    note_use(run, tmp_path / "gone", "0" * 8)
    status, said = cleaned(tmp_path, "forget=gone")
    assert (status, run.root.exists()) == (1, True)
    assert "old: an earlier version began it and kept no list" in said


def test_what_a_sweep_elsewhere_took_up_stays(tmp_path: Path) -> None:
    sweeps, mine = tmp_path / "sweeps", tmp_path / "lab2" / "mine"
    first = sweep_in(sweeps)
    other = sweep_in(sweeps, f"sweep_dir={mine}", "checkpoint.keep=all")
    run = needed(first)
    note_use(run, other.paths.root, other.plan.plan_id)
    reported(run, "finished", 1.0, first.plan.runs[0])
    old, _ = a_checkpoint(run, 1, 5), a_checkpoint(run, 2, 9)
    assert cleaned(sweeps)[0] == 0
    assert old.exists()
    # Not even while that one is out of reach.
    away = (tmp_path / "lab2").rename(tmp_path / "away")
    status, said = cleaned(sweeps)
    assert (status, old.exists()) == (1, True)
    assert "uses it and cannot be read" in said
    away.rename(tmp_path / "lab2")
    shutil.rmtree(first.paths.root)
    assert cleaned(sweeps, f"forget={first.name}")[0] == 0
    assert run.root.exists()
    (tmp_path / "lab2").rename(away)
    status, said = cleaned(sweeps)
    assert (status, run.root.exists()) == (1, True)
    assert f"{mine} uses it and cannot be read; forget={mine}" in said
    away.rename(tmp_path / "lab2")
    with pytest.raises(SettingError, match=f"forget={mine}: is there.*rm -r {mine} first"):
        cleaned(sweeps, f"forget={mine}")
    with pytest.raises(SettingError, match="forget=nonsense: no run's list of sweeps has it"):
        cleaned(sweeps, "forget=nonsense")


def test_runs_and_a_sweep_elsewhere_that_move_together_stay_together(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    run = needed(sweep_in(old / "sweeps", f"sweep_dir={old}/mine"))
    # A copy is no part of what it was copied from.
    shutil.copytree(old, new)
    copied = new / "sweeps" / "runs" / run.run_id
    assert read_sweep(new / "mine").paths.runs == new / "sweeps" / "runs"
    shutil.rmtree(old / "mine")
    assert cleaned(new / "sweeps")[0] == 0
    assert copied.exists()
    assert cleaned(old / "sweeps", f"forget={old}/mine")[0] == 0
    assert not run.root.exists()
    assert copied.exists()


def test_another_plan_in_the_place_of_a_sweep_says_nothing_of_it(tmp_path: Path) -> None:
    first = sweep_in(tmp_path, "name=one")
    run = needed(first)
    (tmp_path / "outside").mkdir()
    first.paths.root.rename(tmp_path / "outside" / "one")
    sweep_in(tmp_path, "name=one", "grid.seeds=[7]")
    assert cleaned(tmp_path)[0] == 1
    assert run.root.exists()


def test_a_plan_that_was_never_launched_goes_after_an_hour(tmp_path: Path) -> None:
    plan, new, launched = (
        sweep_in(tmp_path, f"name={name}") for name in ("plan", "new", "launched")
    )
    drive(launched.paths.drivers)
    for sweep in (plan, launched):
        os.utime(sweep.paths.plan, LATELY)
    status, said = cleaned(tmp_path)
    assert status == 0
    assert f"{plan.paths.root}  (never launched; the same command plans it again)" in said
    there = [sweep.paths.root.exists() for sweep in (plan, new, launched)]
    assert there == [False, True, True]


def test_a_run_that_somebody_is_at_stays(tmp_path: Path) -> None:
    alive = of_no_sweep(sweep_in(tmp_path).paths.runs, ended=False)
    status, said = cleaned(tmp_path)
    assert (status, alive.root.exists()) == (1, True)
    assert "of-no-sweep: no sweep needs it, and it stays" in said


def test_a_plan_that_cannot_be_read_keeps_every_run(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    gone = of_no_sweep(sweep.paths.runs)
    sweep.paths.plan.write_text("{garbage")
    status, said = cleaned(tmp_path)
    assert (status, gone.root.exists()) == (1, True)
    assert f"{sweep.paths.plan}: not JSON" in said


def test_links_are_never_followed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    needed(sweep)
    outside = made(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    linked = of_no_sweep(sweep.paths.runs)
    (linked.root / "data").symlink_to(tmp_path / "elsewhere")
    assert cleaned(tmp_path / "sweeps", "forget=gone")[0] == 0
    assert outside.spec.exists()
    assert (sweep.paths.runs / "mine").is_symlink()
    assert not linked.root.exists()


def test_checkpoints_of_ended_runs_are_kept_as_the_sweep_says(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    ended, going = needed(sweep, 0), needed(sweep, 1)
    reported(ended, "finished", 1.0, sweep.plan.runs[0])
    reported(going, "interrupted", 0.5, sweep.plan.runs[1])
    old, last = a_checkpoint(ended, 1, 5), a_checkpoint(ended, 2, 9)
    between = [a_checkpoint(going, 1, 5), a_checkpoint(going, 1, 7)]
    status, said = cleaned(tmp_path)
    assert status == 0
    assert "1 checkpoint, " in said
    assert "checkpoint.keep=resumable" in said
    assert not old.exists()
    # One that goes on may need them.
    assert all(path.exists() for path in (last, *between))


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
    status, said = cleaned(tmp_path)
    assert (status, last.stat().st_nlink) == (0, 2)
    assert "nothing to remove: every file belongs to a sweep" in said
    assert "optimiser states of ended runs take 2 GB (checkpoint.keep=weights lists them)" in said
    status, said = cleaned(tmp_path, "checkpoint.keep=weights", confirm=False)
    assert status == 0
    assert f"2 GB  {last}  (checkpoint.keep=weights)" in said
    assert "optimiser states of 1 checkpoint, 2 GB:" in said
    assert "confirm=true removes what is listed" in said
    assert (last / "optimizer.pt").exists()
    status, said = cleaned(tmp_path, "checkpoint.keep=weights")
    assert "removed 1, 2 GB" in said
    assert {path.name for path in last.iterdir()} == {"model.safetensors"}
    # The sweep's own setting, with which none were complete any more, takes nothing else.
    for asked in ((), ("checkpoint.keep=weights",)):
        assert "nothing to remove" in cleaned(tmp_path, *asked)[1]
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


def test_the_end_of_a_sweep_says_what_its_optimiser_states_take(tmp_path: Path) -> None:
    an_ended_run(sweep_in(tmp_path))
    study = resolve(make_config(*PLAN, f"sweeps_dir={tmp_path}"))
    # As of a model whose checkpoints are that large.
    runs = tuple(replace(run, checkpoints_kept_bytes=3e9) for run in study.plan.runs)
    large = replace(study, plan=replace(study.plan, runs=runs))
    said = []
    for each in (study, large):
        console = terminal(width=300)
        _tell_disk(Sweep(study=each, paths=sweep_paths(study)), console)
        said.append(printed(console))
    assert said == [
        "",
        "disk: the checkpoints of these runs take 2 GB. Removing their optimiser states frees "
        "2 GB: python -m isosweep mode=clean checkpoint.keep=weights "
        f"sweeps_dir={tmp_path}\n",
    ]


def test_whole_checkpoints_of_ended_runs_go_where_the_command_says_so(tmp_path: Path) -> None:
    _, last = an_ended_run(sweep_in(tmp_path, "checkpoint.keep=all"))
    # What a sweep keeps on purpose is offered to nobody.
    assert "optimiser states" not in cleaned(tmp_path)[1]
    # More than the sweep keeps is not what the command asks for.
    assert "nothing to remove" in cleaned(tmp_path, "checkpoint.keep=all")[1]
    assert "removed 1, 2 GB" in cleaned(tmp_path, "checkpoint.keep=none")[1]
    assert not last.exists()


@pytest.mark.parametrize("keep", ["weights", "none"])
def test_what_a_sweep_is_to_extend_or_somebody_is_at_keeps_its_states(
    keep: str, tmp_path: Path
) -> None:
    small = sweep_in(tmp_path)
    run, last = an_ended_run(small)
    larger = sweep_in(tmp_path, "budget=[1e11,2e11]")
    # What was only planned extends nothing.
    assert "optimiser states of ended runs take 2 GB" in cleaned(tmp_path)[1]
    drive(larger.paths.drivers)
    note_use(run, larger.paths.root, larger.plan.plan_id)
    asked = f"checkpoint.keep={keep}"
    status, said = cleaned(tmp_path, asked)
    assert (status, (last / "optimizer.pt").exists()) == (0, True)
    assert f"1 run keeps its checkpoints: {larger.name} trains further" in said
    assert "optimiser states" not in cleaned(tmp_path)[1]
    shutil.rmtree(larger.paths.root)
    status, said = cleaned(tmp_path, asked)
    assert (status, (last / "optimizer.pt").exists()) == (1, True)
    assert f"{larger.name} uses it and cannot be read" in said
    # Somebody has taken it up again.
    submitted(run)
    cleaned(tmp_path, asked, f"forget={larger.name}")
    assert (last / "optimizer.pt").exists()


def test_a_run_that_a_search_asks_no_more_of_is_as_good_as_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path, "search=frontier")
    drive(sweep.paths.drivers)
    run, last = an_ended_run(sweep, share=0.5)
    assert "trains further" in cleaned(tmp_path, "checkpoint.keep=weights")[1]
    document = {"decision": {"stop": "spent"}, "open": [], "trials": {run.run_id: {}}}
    monkeypatch.setattr(needed_module, "stored_search", lambda sweep: document)
    assert "removed 1, 2 GB" in cleaned(tmp_path, "checkpoint.keep=weights")[1]
    assert not (last / "optimizer.pt").exists()


def test_leftovers_of_a_kill_go_when_they_are_a_day_old(tmp_path: Path) -> None:
    run = needed(sweep_in(tmp_path))
    names = (".1.json.123.0a1b2c3d", ".2.json.123.0a1b2c3d", ".hidden")
    old, new, other = (run.attempts.parent / name for name in names)
    for path in (old, new, other):
        path.write_text("{")
    for path in (old, other):
        os.utime(path, YESTERDAY)
    assert cleaned(tmp_path)[0] == 0
    assert [path.exists() for path in (old, new, other)] == [False, True, True]
