"""A store that was moved or copied with the runs, and one that is away."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.tracking.sweeps import EVAL_STEPS, Sweep, set_state, write_steps


def state_of(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below, with its content and when it was written."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def tracked(sweep: Sweep) -> None:
    """Sync the sweep, and add a report to its own run."""
    sweep.paths.analysis.mkdir(parents=True, exist_ok=True)
    sweep.paths.report.write_text(f"of {sweep.root}")
    tracker = sweep.tracker()
    tracker.sync()
    tracker.finish("FINISHED", [], sweep.paths.report)


def addresses(root: Path) -> set[str]:
    """Where the store says that the artifacts of its experiments lie, but for MLflow's own."""
    with closing(sqlite3.connect(root / "mlflow.db")) as store:
        asked = "SELECT artifact_location FROM experiments WHERE name LIKE 'isosweep%'"
        return {row[0].partition("/mlartifacts")[0] for row in store.execute(asked)}


def test_a_copied_store_writes_nothing_into_the_original(sweep: Sweep, tmp_path: Path) -> None:
    tracked(sweep)
    shutil.copytree(sweep.root, tmp_path / "the copy")
    before = state_of(sweep.root)
    copied = Sweep(tmp_path / "the copy", max_points=20)
    write_steps(copied.runs[0], range(21, 41))
    set_state(copied.runs[0], "finished", 40)
    tracked(copied)
    assert state_of(sweep.root) == before
    reports = (copied.root / "mlartifacts").rglob("report.html")
    assert {path.read_text() for path in reports} == {f"of {sweep.root}", f"of {copied.root}"}
    # Of the copy everything is there anew, beside what was copied, and once.
    tracked(copied)
    copied.config = replace(copied.config, experiment=f"isosweep in {copied.root}")
    assert copied.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert copied.store.found(copied.plan)
    assert addresses(copied.root) == {sweep.root.as_uri(), copied.root.as_uri()}


def test_a_copied_store_is_shown_before_anything_is_sent_to_it(
    sweep: Sweep, tmp_path: Path
) -> None:
    assert not sweep.store.found(sweep.plan)
    tracked(sweep)
    shutil.copytree(sweep.root, tmp_path / "the copy")
    store = Sweep(tmp_path / "the copy").store
    assert store.found(sweep.plan)
    assert not store.found(replace(sweep.plan, runs=sweep.plan.runs[:1]))


def test_a_store_that_is_looked_at_by_another_name_keeps_its_addresses(
    sweep: Sweep, tmp_path: Path
) -> None:
    tracked(sweep)
    (tmp_path / "alias").symlink_to(sweep.root)
    with closing(sqlite3.connect(sweep.root / "mlflow.db")) as store, store:
        # As a host would have it that calls the directory so.
        was, alias = f"{sweep.root.as_uri()}/", f"{(tmp_path / 'alias').as_uri()}/"
        store.execute(
            "UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)",
            (was, alias),
        )
        store.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?)", (was, alias))
    tracked(sweep)
    assert len(sweep.stored()) == 2
    assert addresses(sweep.root) == {(tmp_path / "alias").as_uri()}


def test_while_the_runs_are_away_nothing_is_sent_and_no_directory_is_made(
    sweep: Sweep, tmp_path: Path
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    assert sweep.child().info.status == "RUNNING"
    gone = sweep.root.rename(tmp_path / "gone")
    tracker.sync()
    tracker.finish("FINISHED", [], None)
    assert not sweep.root.exists()
    gone.rename(sweep.root)
    tracker.sync()
    assert sweep.child().info.status == "RUNNING"
