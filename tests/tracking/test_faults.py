"""A real SQLite store that is removed, locked, read-only or full, and what is said of it."""

import logging
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isosweep.tracking.faults import StoreError, described, quiet, store_name
from tests.conftest import missing
from tests.tracking.sweeps import EVAL_STEPS, Sweep, set_state, sync_command, write_steps

pytestmark = pytest.mark.mlflow


def test_a_store_that_is_removed_is_rebuilt_from_the_files(
    sweep: Sweep, empty_store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    database = sweep.root / "mlflow.db"
    # A copy in its place, so that MLflow need not make its tables once more.
    database.unlink()
    database.write_bytes(empty_store.read_bytes())
    tracker.sync()
    # MLflow keeps a file that was removed open, by the name that it has for it.
    reader = Sweep(sweep.root, uri=f"sqlite:///{sweep.root}/./mlflow.db")
    assert reader.histories() == before
    with sqlite3.connect(database) as connection:
        for table in ("metrics", "latest_metrics", "params", "tags", "runs"):
            connection.execute(f"DELETE FROM {table}")
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    tracker.sync()
    assert reader.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert capfd.readouterr() == ("", "")


def test_a_run_that_is_deleted_in_mlflow_is_made_again_once_there_is_news_of_it(
    sweep: Sweep,
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    deleted = sweep.child().info.run_id
    sweep.client().delete_run(deleted)
    write_steps(sweep.runs[0], range(21, 41))
    tracker.sync()
    assert sweep.child().info.run_id != deleted
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)


def test_a_locked_store_is_said_to_be_and_filled_afterwards(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isosweep.tracking.store.BUSY_S", 0.1)
    tracker = sweep.tracker()
    with sqlite3.connect(sweep.root / "mlflow.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="it is locked by another process"):
            tracker.sync()
        other.rollback()
    tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    assert capfd.readouterr() == ("", "")


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    """A file system of `size` at `directory`."""
    directory.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        missing("disk", f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.mark.disk
@pytest.mark.parametrize(
    ("fault", "said"), [("full", "its disk is full"), ("ro", "cannot be written, it is read-only")]
)
def test_a_full_or_read_only_disk(
    untracked: Sweep, tmp_path: Path, empty_store: Path, fault: str, said: str
) -> None:
    mount = tmp_path / "disk"
    with small_disk(mount, "4m"):
        database = mount / "mlflow.db"
        database.write_bytes(empty_store.read_bytes())
        sweep = Sweep(untracked.root, uri=f"sqlite:///{database}", max_points=20)
        # In a process of its own: what is open cannot become read-only.
        subprocess.run(sync_command(sweep.root, uri=sweep.config.uri, max_points=20), check=True)
        tracker = sweep.tracker()
        write_steps(sweep.runs[0], range(21, 41))
        set_state(sweep.runs[0], "finished", 40)
        filler = mount / "filler"
        if fault == "full":
            free = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
            filler.write_bytes(bytes(free))
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        for _ in range(2):
            with pytest.raises(StoreError, match=said):
                tracker.sync()
        subprocess.run(["mount", "-o", "remount,rw,size=8m", str(mount)], check=True)
        filler.unlink(missing_ok=True)
        tracker.sync()
        assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
        assert sweep.steps("train/loss") == list(range(2, 41, 2))
        assert sweep.child().info.status == "FINISHED"


def test_a_sweep_that_finished_unseen_is_brought_up_to_date(sweep: Sweep) -> None:
    sweep.tracker().sync()
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    set_state(sweep.runs[1], "failed", 0, reason="out of memory")
    tracker = sweep.tracker()
    tracker.sync()
    tracker.finish(None, [], None)
    stored = sweep.stored()
    assert [sweep.child(i).info.status for i in (0, 1)] == ["FINISHED", "FAILED"]
    assert stored["parent"].info.status == "FAILED"
    set_state(sweep.runs[1], "finished", 40, attempt=2)
    sweep.tracker().sync()
    assert sweep.stored()["parent"].info.status == "FINISHED"


def test_a_damaged_file_is_named_and_the_other_runs_go_on(sweep: Sweep) -> None:
    (sweep.runs[0].metrics / "1.jsonl").write_text('{"attempt": 1, "step": 2, "loss": 1}\n')
    set_state(sweep.runs[1], "running", 20)
    tracker = sweep.tracker()
    tracker.sync()
    assert "time" in sweep.child().data.tags["unreadable"]
    assert sweep.child(1).info.status == "RUNNING"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(sqlite3.OperationalError) database is locked\n[SQL: ...]", "it is locked by another"),
        ("attempt to write a readonly database", "it is read-only"),
        ("HTTPConnectionPool: Max retries (... [Errno 111] Connection refused)", "does not answer"),
        ("Read timed out. (read timeout=25)", "it does not answer in time"),
        ("API request failed with error code 503 != 200", "it answers with an error (HTTP 503)"),
        ("Max retries exceeded (too many 500 error responses)", "an error (HTTP 500)"),
        ("failed with error code 401 != 200", "it refuses access"),
        ("no such table: runs", "it is damaged"),
        ("No module named 'psycopg2'", "psycopg2 is not installed here"),
        ("cannot reach postgresql://me:secret@db/mlflow?sslpassword=hidden", "db/mlflow"),
    ],
)
def test_a_fault_is_one_line_in_plain_words_without_secrets(text: str, words: str) -> None:
    uri = "postgresql://me:secret@db/mlflow?sslpassword=hidden"
    said = described(RuntimeError(text), uri)
    assert words in said
    assert "\n" not in said
    assert "secret" not in said
    assert "hidden" not in said
    assert store_name(uri) == "postgresql://db/mlflow"


def test_only_the_stores_libraries_in_this_thread_are_silenced(
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = ("urllib3.connectionpool", "sqlalchemy.pool", "another.library")
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)

    def log(where: str) -> None:
        for name in names:
            logging.getLogger(name).error("%s in %s", name, where)

    try:
        with quiet():
            log("here")
            other = threading.Thread(target=log, args=["another thread"])
            other.start()
            other.join()
        log("the end")
    finally:
        logging.getLogger().removeHandler(handler)
    lines = capfd.readouterr().err.splitlines()
    elsewhere = [f"{name} in another thread" for name in names]
    ends = [f"{name} in the end" for name in names]
    assert lines == ["another.library in here", *elsewhere, *ends]
