"""`mode=status` never contradicts the scheduler, and says why each run is where it is."""

import json
import time
from pathlib import Path

import pytest

from isosweep.door.frames import run_rows, sweep_row
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.launchers.launcher import JobState
from isosweep.modes.launch import plan_sweep
from isosweep.modes.observed import choose_runs, observe_runs
from isosweep.modes.status import (
    last_lines,
    list_sweeps,
    listed_sweep,
    show_status,
)
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Status
from tests.commands import in_process
from tests.conftest import make_config
from tests.modes.looked_after import (
    Scheduled,
    ended,
    printed,
    reported,
    submitted,
    sweep_in,
    terminal,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "json.md"
PENDING = JobState(status="pending", reason="Priority")
RUNNING = JobState(status="running")
LOST = JobState(status="gone", reason="NODE_FAIL", outcome=Status.LOST)
KILLED = JobState(status="gone", reason="CANCELLED by 0", outcome=Status.CANCELLED)
SILENT = JobState(status="unknown", reason="squeue: Unable to contact slurm controller")

# What the newest attempt says (None: there is none), share of the run behind it, what the scheduler
# says; how the run stands, and what is told of it.
TABLE = [
    (None, 0.0, PENDING, Standing.QUEUED, "Priority"),
    (None, 0.0, RUNNING, Standing.RUNNING, "starting"),
    (None, 0.0, LOST, Standing.INTERRUPTED, "its job is gone: NODE_FAIL"),
    (None, 0.0, SILENT, Standing.QUEUED, "queued by its files"),
    (Status.RUNNING, 0.5, RUNNING, Standing.RUNNING, "evaluating for 10 min"),
    (Status.RUNNING, 0.5, PENDING, Standing.QUEUED, "requeued: Priority"),
    (Status.RUNNING, 0.5, LOST, Standing.INTERRUPTED, "its job is gone: NODE_FAIL"),
    (Status.RUNNING, 0.5, KILLED, Standing.CANCELLED, "CANCELLED by 0"),
    (Status.RUNNING, 0.5, SILENT, Standing.RUNNING, "evaluating for 10 min by its files"),
]


@pytest.mark.parametrize(("said", "share", "answer", "standing", "told"), TABLE)
def test_a_live_attempt_stands_as_its_scheduler_says(
    said: Status | None,
    share: float,
    answer: JobState,
    standing: Standing,
    told: str,
    tmp_path: Path,
) -> None:
    sweep = sweep_in(tmp_path)
    planned = sweep.plan.runs[0]
    run = sweep.paths.run(planned.run_id)
    attempt = submitted(run)
    if said is not None:
        reported(attempt, said, share, planned)
    jobs = Scheduled({run.run_id: answer})
    first, *others = observe_runs(sweep, jobs)
    assert first.standing is standing
    assert told in first.note
    assert {each.standing for each in others} == {Standing.NOT_BEGUN}
    assert jobs.asked == 1


def test_a_heartbeat_is_as_old_as_the_file_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path)
    planned = sweep.plan.runs[0]
    run = sweep.paths.run(planned.run_id)
    attempt = reported(submitted(run), Status.RUNNING, 0.5, planned)
    written = attempt.path.stat().st_mtime
    # A server whose clock is an hour behind this machine's.
    monkeypatch.setattr(time, "time", lambda: written + 3600)
    (seen, *_) = observe_runs(sweep, Scheduled({run.run_id: RUNNING}))
    assert seen.heartbeat_s is not None
    assert 0 <= seen.heartbeat_s < 60


def test_what_a_worker_said_while_its_job_left_counts(tmp_path: Path) -> None:
    """Between reading a run's files and asking for its job, it may end."""
    sweep = sweep_in(tmp_path)
    planned = sweep.plan.runs[0]
    run = sweep.paths.run(planned.run_id)
    attempt = reported(submitted(run), Status.RUNNING, 0.5, planned)

    class Ending(Scheduled):
        def observe(self, attempts: object) -> list[JobState]:
            attempt.end(Status.FAILED, "ValueError: said at the end")
            return [LOST]

    seen = observe_runs(sweep, Ending())[0]
    assert (seen.standing, seen.note) == (Standing.FAILED, "ValueError: said at the end")


def test_a_document_for_programs_is_all_that_stdout_has(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    planned = sweep.plan.runs[0]
    run = sweep.paths.run(planned.run_id)
    submitted(run).end(Status.REFUSED, "Invalid account")
    done = in_process(("mode=status", "runs=seed:0", "format=json"), tmp_path)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["version"] == 2
    assert document["sweep"] == sweep.name
    assert document["counts"]["failed"] == 1
    first = next(entry for entry in document["runs"] if entry["run_id"] == planned.run_id)
    assert (first["standing"], first["note"]) == ("failed", "Invalid account")
    (listed,) = json.loads(in_process(("mode=status", "format=json"), tmp_path).stdout)["sweeps"]
    page = REFERENCE.read_text(encoding="utf-8")
    assert [name for name in {**document, **first, **listed} if f"`{name}" not in page] == []
    # Which sweep it was, where nothing said so.
    assert "the newest in" in done.stderr


def test_every_surface_counts_runs_alike(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first, second, *others = sweep.plan.runs
    for place, run in enumerate(sweep.plan.runs):
        ended(sweep, place, Status.FAILED if run is second else Status.FINISHED)
    sweep.paths.analysis.mkdir()
    # A run that failed has not collapsed beside that.
    fallen = [first.run_id, second.run_id]
    write_json(sweep.paths.answer, {"verdict": "growing", "collapsed": fallen})
    words = f"1 failed, {len(others) + 1} done, 1 of them collapsed"
    console = terminal()
    assert show_status(sweep, make_config(), Scheduled({}), console) == 1
    assert f"{len(sweep.plan.runs)} runs: {words}" in printed(console)
    list_sweeps(make_config(f"sweeps_dir={tmp_path}"), console)
    assert f" runs: {words}; verdict: growing" in printed(console)
    plan_sweep(sweep.study(), console)
    assert f"runs: {words}; " in printed(console)
    row = sweep_row(listed_sweep(sweep.paths.root))
    runs = list(run_rows(sweep))
    assert (row["done"], row["collapsed"]) == (len(others) + 1, 1)
    assert sum(run["standing"] == "done" for run in runs) == row["done"]
    assert [run["run_id"] for run in runs if run["collapsed"]] == [first.run_id]


def test_the_last_lines_of_a_log_have_a_progress_bar_once_and_none_of_files_that_are_loaded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    lines = ["x" * 5000, "y" * 90000, "\u00e9" * 4000, "last"]
    loading = ["Loading weights: 100%|##| 290/290 [00:01<00:00]", "Fetching 2 files:   0%|  | 0/2"]
    path.write_text("\n".join([*lines, *loading]))
    for count in (1, 2, 3, 4, 9):
        assert last_lines(path, count) == lines[-count:]
    path.write_bytes(b"\xff torn \xe2")
    assert len(last_lines(path, 2)) == 1
    path.write_text("begun\n\rsteps:  50%|# | 4/9\rsteps: 100%|##| 9/9\nended\r\n", newline="")
    assert last_lines(path, 9) == ["begun", "steps: 100%|##| 9/9", "ended"]


def test_words_of_one_kind_widen_the_choice_and_several_kinds_narrow_it(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "grid.seeds=[0,1]")
    runs = observe_runs(sweep, Scheduled({}))

    def chosen(*words: str) -> list[tuple[int, int]]:
        found = choose_runs(words, runs)
        return sorted((each.run.num_generations, each.run.seed) for each in found)

    everything = [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert chosen() == chosen("n:2", "n:4") == chosen("running", "not_begun") == everything
    assert chosen("not begun") == everything
    assert chosen("n:2", "seed:1") == [(2, 1)]
    assert chosen("*-n4-*") == chosen("n4-B4") == [(4, 0), (4, 1)]
    assert chosen("running", "n:2") == []
    for word in ("n:3", "m:2", "n9", "nearly_done", "n:*", "m:*", "N:*", "id:*"):
        with pytest.raises(SettingError, match="fits none of the plan's 4 runs"):
            choose_runs([word], runs)


def test_a_value_that_is_a_list_is_chosen_as_it_is_written(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "grid.axes={task.sort.levels:[[4],[5]]}")
    runs = observe_runs(sweep, Scheduled({}))
    found = choose_runs(["levels:[4]"], runs)
    assert 0 < len(found) < len(runs)
    assert {str(each.run.axes["task.sort.levels"]) for each in found} == {"[4]"}
