"""`mode=clean` takes nothing that is kept elsewhere; a run without checkpoints begins again."""

from pathlib import Path

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


def test_links_stay(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    outside = made(RunPaths(tmp_path / "elsewhere" / "mine"))
    (sweep.paths.runs / "mine").symlink_to(outside.root)
    config = make_config("mode=clean", f"sweeps_dir={tmp_path / 'sweeps'}", "confirm=true")
    assert clean_sweeps(config, console := terminal()) == 1
    assert "stays: it is a link" in printed(console)
    assert outside.spec.exists()
    assert (sweep.paths.runs / "mine").is_symlink()


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
