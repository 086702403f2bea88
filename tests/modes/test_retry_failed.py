"""`mode=resume` leaves what failed for good, and says so; `retry_failed=true` tries it again."""

from pathlib import Path

from isosweep.modes.queues import Sweep
from isosweep.modes.run import failed_for_good
from isosweep.store.submissions import Outcome, close
from tests.modes.looked_after import submitted, sweep_in


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
