"""`mode=clean` takes nothing that is kept elsewhere; a run without checkpoints begins again."""

from pathlib import Path

import pytest

from isosweep.errors import RecordError
from isosweep.modes.clean import clean_sweeps
from isosweep.modes.show_plan import described_losses
from isosweep.modes.sweeps import sweep_paths
from isosweep.plan.study import resolve
from isosweep.store.attempts import Status
from isosweep.store.checkpoints import find_resume_point
from isosweep.store.paths import RunPaths
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, printed, reported, submitted, sweep_in, terminal


def made(run: RunPaths) -> RunPaths:
    """A run that was trained."""
    run.root.mkdir(parents=True, exist_ok=True)
    run.spec.write_text("{}")
    submitted(run).end(Status.INTERRUPTED, "")
    return run


def cleaned(directory: Path) -> tuple[int, str]:
    console = terminal()
    config = make_config("mode=clean", f"sweeps_dir={directory}", "confirm=true")
    return clean_sweeps(config, console), printed(console)


def test_links_are_not_followed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    outside = made(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    assert cleaned(tmp_path / "sweeps")[0] == 0
    assert outside.spec.exists()
    assert (sweep.paths.runs / "mine").is_symlink()


def test_runs_of_a_sweep_of_earlier_settings_stay(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    kept = made(sweep.paths.run(sweep.plan.runs[0].run_id))
    free = made(RunPaths(sweep.paths.runs / "of-no-sweep"))
    text = sweep.paths.config.read_text()
    sweep.paths.config.write_text(text.replace('"mode"', '"no_longer"', 1))
    assert cleaned(tmp_path)[0] == 0
    assert (kept.spec.exists(), free.spec.exists()) == (True, False)
    sweep.paths.plan.write_text('{"runs": [3]}')
    with pytest.raises(RecordError, match="not a plan"):
        cleaned(tmp_path)


def test_a_run_that_is_taken_up_while_it_is_moved_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = made(RunPaths(sweep_in(tmp_path).paths.runs / "of-no-sweep"))
    rename = Path.rename

    def taken_up(path: Path, target: Path) -> Path:
        if path == gone.root:
            submitted(gone)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", taken_up)
    status, said = cleaned(tmp_path)
    assert (status, gone.spec.exists()) == (1, True)
    assert f"{gone.root} stays: a worker has it, or may have it" in said


def test_a_run_whose_checkpoints_were_deleted_begins_again_which_is_said_before(
    tmp_path: Path,
) -> None:
    sweep = sweep_in(tmp_path)
    run = made(sweep.paths.run(sweep.plan.runs[0].run_id))
    reported(submitted(run), Status.FINISHED, 1.0, sweep.plan.runs[0])
    assert find_resume_point(run, 3).losses == (
        "no checkpoint to go on from is left of the run, which had ended (checkpoint.keep, or "
        "deleted); training goes on from step 0",
    )
    more = resolve(make_config(*PLAN, f"sweeps_dir={tmp_path}", "budget=[1e11,2e11]"))
    assert [*described_losses(more, sweep_paths(more))] == [
        f"{run.run_id}: no checkpoint to go on from is left (checkpoint.keep, or deleted): to "
        "be extended it is trained again from step 0"
    ]
