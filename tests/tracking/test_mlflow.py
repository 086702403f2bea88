"""What MLflow alone is asked of: a real store, synthetic runs."""

import resource
import shutil
import socket
import sqlite3
import stat
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from isosweep.config.base import replaced
from isosweep.store.records import append_warning
from isosweep.store.warnings import HealthWarning
from isosweep.tracking.points import RunStatus
from isosweep.tracking.tracker import Overview, fault
from tests.tracking.sweeps import (
    EVAL_STEPS,
    EVALUATION_S,
    START,
    TRAIN_STEPS,
    Sweep,
    set_state,
    start,
    sync_command,
    write_steps,
)

pytestmark = pytest.mark.mlflow


@pytest.fixture
def sweep(in_mlflow: Sweep) -> Sweep:
    return in_mlflow


def test_runs_lie_below_the_sweep_s_own_with_their_times_and_columns(sweep: Sweep) -> None:
    # Another began later.
    start(sweep.runs[1])
    write_steps(sweep.runs[1], range(21), shift=50)
    sweep.sync()
    whole, run = sweep.shown(None), sweep.shown()
    assert run.tags["mlflow.parentRunId"] == whole.run.info.run_id
    assert run.tags["isosweep.sweep"] == f"it's a sweep@{sweep.plan.plan_id}"
    assert [run.tags[name] for name in ("n", "B", "T", "seed")] == ["2", "4", "40", "0"]
    # Filters compare metrics as numbers.
    assert [run.values[name] for name in ("n", "log2_n", "T")] == [2, 1, 40]
    for each in (whole, run):
        assert each.run.info.start_time == (START - EVALUATION_S) * 1000
        assert each.run.info.status == "RUNNING"
    assert whole.values["eval_min"] == 6 * EVALUATION_S / 60, "the sum of all"


STATUSES: tuple[tuple[str, int, str, str], ...] = (
    ("running", 20, "RUNNING", "running"),
    ("finished", 40, "FINISHED", "done"),
    ("finished", 20, "SCHEDULED", "to extend"),
    ("diverged", 20, "FAILED", "diverged"),
    ("failed", 20, "FAILED", "failed"),
    ("interrupted", 20, "KILLED", "interrupted"),
    ("cancelled", 20, "KILLED", "cancelled"),
    # Once more, later.
    ("cancelled", 30, "KILLED", "cancelled"),
)


def test_status_of_a_run(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    for attempt, (status, step, in_mlflow, word) in enumerate(STATUSES, 2):
        set_state(sweep.runs[0], status, step, attempt=attempt, reason="out of memory")
        tracker.sync()
        run = sweep.shown()
        assert run.run.info.status == in_mlflow
        assert (run.tags["status"], run.tags["reason"]) == (word, "out of memory")
        if in_mlflow not in ("RUNNING", "SCHEDULED"):
            assert run.run.info.end_time == (START + 1000 + step) * 1000
    set_state(sweep.runs[0], "running", 20, attempt=9)
    tracker.sync()
    assert sweep.shown().tags["reason"] == "", "what is no longer so is emptied"


def test_a_run_that_waits_is_made_once_it_has_begun(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    start(sweep.runs[1])
    set_state(sweep.runs[1], "running", 0)
    tracker.sync()
    assert sweep.shown(1).run.info.status == "RUNNING"
    # Whoever makes it later knows from its first record when that was.
    sweep.client().delete_run(sweep.shown(1).run.info.run_id)
    write_steps(sweep.runs[1], range(1), shift=50)
    set_state(sweep.runs[1], "interrupted", 0)
    sweep.sync()
    made = sweep.shown(1).run.info
    assert made.start_time == (START + 50 - EVALUATION_S) * 1000
    assert made.end_time == (START + 1000) * 1000


def test_a_run_that_collapsed_is_not_shown_as_finished(sweep: Sweep) -> None:
    sweep.done()
    for collapsed, shown in (
        (frozenset({sweep.runs[0].run_id}), ("FAILED", "collapsed")),
        # Nobody has looked since.
        (None, ("FAILED", "collapsed")),
        (frozenset[str](), ("FINISHED", "done")),
    ):
        sweep.tracker(Overview(collapsed=collapsed)).finish(None)
        run, whole = sweep.shown(), sweep.shown(None)
        assert (run.run.info.status, run.tags["status"]) == shown
        assert whole.run.info.status == "KILLED", "the other run has not begun"


def test_warnings_are_named_and_a_damaged_file_stops_no_other_run(sweep: Sweep) -> None:
    for step, rule in ((12, "truncation"), (20, "collapse")):
        warning = HealthWarning(step=step, rule=rule, value=0.2, threshold=0.1, message="above")
        append_warning(sweep.runs[0].warnings, 1, warning)
    tracker = sweep.tracker()
    tracker.sync()
    assert sweep.shown().tags["warnings"] == "truncation (step 12), collapse (step 20)"
    (sweep.runs[0].metrics / "1.jsonl").write_text('{"attempt": 1, "step": 2, "loss": 1}\n')
    for run in sweep.runs:
        set_state(run, "running", 21)
    tracker.sync()
    assert "time" in sweep.shown().tags["unreadable"]
    assert sweep.shown(1).run.info.status == "RUNNING"


def test_files_are_replaced_and_the_sweep_ends_even_without_one(sweep: Sweep) -> None:
    run_id, figure, report = sweep.runs[0].run_id, sweep.root / "x.png", sweep.root / "report.html"
    figure.write_bytes(b"content")
    files = ((figure, "figures"), (report, ""))
    metrics = {run_id: {"reward_1_2e10": 0.2}}
    overview = Overview(note="**why**", metrics=metrics, unix_time=START + 9, files=files)
    tracker = sweep.tracker(overview)
    statuses: tuple[RunStatus, ...] = ("FINISHED", "FAILED", "KILLED")
    for status in statuses:
        report.write_text(status)
        tracker.finish(status)
        whole = sweep.shown(None)
        info = whole.run.info
        assert (info.status, info.end_time) == (status, (START + 20) * 1000)
    assert whole.tags["mlflow.note.content"] == "**why**"
    assert sweep.shown().points["reward_1_2e10"] == [(0, START + 9, 0.2)]
    place = sweep.root / "mlartifacts" / info.run_id / "artifacts"
    stored = {p.relative_to(place): p.read_text() for p in place.rglob("*") if p.is_file()}
    assert stored == {Path("figures/x.png"): "content", Path("report.html"): "KILLED"}
    figure.unlink()
    with pytest.raises(OSError, match=r"x\.png"):
        tracker.finish("FINISHED")
    assert sweep.shown(None).run.info.status == "FINISHED"


@contextmanager
def deleted(sweep: Sweep) -> Iterator[None]:
    """After somebody has deleted a run."""
    sweep.client().delete_run(sweep.shown().run.info.run_id)
    yield


@contextmanager
def locked(sweep: Sweep) -> Iterator[None]:
    """While another process writes to the database, or hangs in that."""
    with closing(sqlite3.connect(sweep.root / "mlflow.db")) as other:
        other.execute("begin exclusive")
        yield


@contextmanager
def full(sweep: Sweep) -> Iterator[None]:
    """While no file may become larger than the database is."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (sweep.root / "mlflow.db").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)


@contextmanager
def away(sweep: Sweep) -> Iterator[None]:
    """While the disk of the runs is not there; no directory is made in its place."""
    gone = sweep.root.rename(sweep.root.parent / "gone")
    yield
    assert not sweep.root.exists()
    gone.rename(sweep.root)


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        # MLflow waits 20 s for the lock.
        pytest.param(locked, "database is locked", marks=pytest.mark.slow),
        (full, "disk I/O error"),
        (deleted, "must be in the 'active' state"),
        (away, "No such file or directory"),
    ],
)
def test_a_store_that_fails_is_named_in_its_own_words_and_completed_afterwards(
    sweep: Sweep,
    fails: Callable[[Sweep], AbstractContextManager[None]],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    sweep.done()
    with fails(sweep), pytest.raises(Exception, match=said) as failed:
        tracker.sync()
    assert said in fault(failed.value)
    tracker.sync()
    run = sweep.shown()
    assert run.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert run.steps("train/loss") == TRAIN_STEPS
    assert run.run.info.status == "FINISHED"
    assert capfd.readouterr() == ("", "")


def test_a_copied_store_writes_nothing_into_the_original(sweep: Sweep, tmp_path: Path) -> None:
    def tracked(sweep: Sweep) -> None:
        report = sweep.root / "report.html"
        report.write_text(f"of {sweep.root}")
        sweep.tracker(Overview(files=((report, ""),))).finish("FINISHED")

    def state_of(root: Path) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    tracked(sweep)
    shutil.copytree(sweep.root, tmp_path / "the copy")
    before = state_of(sweep.root)
    copied = Sweep(tmp_path / "the copy")
    assert not copied.backend().find()
    copied.done()
    for _ in range(2):
        tracked(copied)
        assert state_of(sweep.root) == before
    reports = (copied.root / "mlartifacts").rglob("report.html")
    assert {path.read_text() for path in reports} == {f"of {sweep.root}", f"of {copied.root}"}
    # The copy's is there anew, beside what was copied, and once.
    assert copied.backend().find()
    copied.config = replaced(copied.config, experiment=f"isosweep in {copied.root}")
    assert copied.shown().steps("heldout/avg_at_k") == list(EVAL_STEPS)


def _tables(database: Path) -> set[str]:
    if not database.exists():
        return set()
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", timeout=60, uri=True)) as known:
        return {name for (name,) in known.execute("select name from sqlite_master")}


@pytest.mark.slow
def test_a_process_that_is_killed_as_it_makes_the_store_leaves_no_half(tmp_path: Path) -> None:
    command = sync_command(tmp_path, directory="a")
    half = tmp_path / "mlflow.db.new"
    process = subprocess.Popen(command, umask=0o002)
    while "alembic_version" not in _tables(half):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert [half.exists(), (tmp_path / "mlflow.db").exists()] == [True, False]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, umask=0o002)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert stat.S_IMODE((tmp_path / "mlflow.db").stat().st_mode) == 0o664, "by the umask"
    assert len(Sweep(tmp_path, directory="a").all_shown()) == 1


@pytest.mark.slow
def test_several_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    # One sweep twice, and another.
    commands = [sync_command(tmp_path, directory=name) for name in ("a", "a", "b")]
    out, err = subprocess.PIPE, subprocess.STDOUT
    processes = [subprocess.Popen(each, text=True, stdout=out, stderr=err) for each in commands]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert outputs == ["", "", ""], "MLflow's own INFO lines are kept out of the terminal"
    for name in ("a", "b"):
        assert len(Sweep(tmp_path, directory=name).all_shown()) == 1


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a server of MLflow's answers, with a database of its own."""
    from mlflow.server.handlers import initialize_backend_stores
    from uvicorn import Config, Server

    files = (tmp_path / "artifacts").as_uri()
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_DESTINATION", files)
    monkeypatch.setenv("_MLFLOW_SERVER_SERVE_ARTIFACTS", "true")
    store = f"sqlite:///{tmp_path / 'server.db'}"
    initialize_backend_stores(store, store, "mlflow-artifacts:/")
    with warnings.catch_warnings(action="ignore"):
        from mlflow.server.fastapi_app import app
    server = Server(Config(app, lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.slow
def test_a_server_is_used_over_http(sweep: Sweep, address: str) -> None:
    (sweep.root / "mlflow.db").unlink()
    figure = sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    sweep.config = replaced(sweep.config, uri=address)
    tracker = sweep.tracker(Overview(files=((figure, "figures"),)))
    tracker.sync()
    before = sweep.shown().points
    sweep.sync()
    assert sweep.shown().points == before
    write_steps(sweep.runs[0], range(21, 31))
    set_state(sweep.runs[0], "running", 30)
    tracker.finish("FINISHED")
    assert sweep.shown().steps("heldout/avg_at_k") == [0, 10, 20, 30]
    whole = sweep.shown(None).run.info
    assert (whole.status, sweep.shown().run.info.status) == ("FINISHED", "RUNNING")
    [artifact] = sweep.client().list_artifacts(whole.run_id, "figures")
    assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}
