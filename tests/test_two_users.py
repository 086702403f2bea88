"""Two users in one directory of sweeps: one executes nothing that the other leaves there."""

import json
import os
import pwd
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config import trust
from isosweep.errors import SettingError
from isosweep.launchers.local import LocalLauncher
from isosweep.modes.dashboard import show_dashboard
from isosweep.modes.run_files import store_runs
from isosweep.modes.sweeps import StoredSweep, read_sweep
from isosweep.modes.tracking import catch_up
from isosweep.plan.study import resolve
from isosweep.store.attempts import Process
from tests.conftest import make_config
from tests.modes.looked_after import printed, submitted, sweep_in, terminal

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")

# Whom every system has, in none of root's groups.
SECOND_USER = "nobody"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_FOREIGN", {})


@pytest.fixture
def lab() -> Iterator[Path]:
    """A directory that everybody reaches, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        shared = Path(directory) / "lab"
        shared.mkdir()
        yield shared


def opened_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


def as_the_other(act: Callable[[], None]) -> None:
    """Do it in a process of the second user."""
    other = pwd.getpwnam(SECOND_USER)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(other.pw_gid)
            os.setuid(other.pw_uid)
            act()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def replaced(path: Path, change: Callable[[Any], None]) -> Callable[[], None]:
    """Another file of that name, with a document that was changed."""

    def act() -> None:
        document = json.loads(path.read_text())
        change(document)
        new = path.with_name("new")
        new.write_text(json.dumps(document))
        new.replace(path)

    return act


def settings_changed(sweep: StoredSweep, group: str, **values: object) -> StoredSweep:
    """The sweep as it is read once the other has put values into a group of its settings."""
    as_the_other(replaced(sweep.paths.config, lambda d: d[group].update(values)))
    return read_sweep(sweep.paths.root)


def shared_sweep(lab: Path) -> StoredSweep:
    sweep = sweep_in(lab, "tracking=none")
    store_runs(resolve(sweep.config), sweep.paths)
    opened_to_all(lab)
    return sweep


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where the other waits for what is sent in this user's name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        yield server


def was_called(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.mlflow
def test_an_address_of_the_other_is_sent_nothing(lab: Path, listener: socket.socket) -> None:
    sweep, uri = shared_sweep(lab), f"http://127.0.0.1:{listener.getsockname()[1]}"
    console, again = terminal(), settings_changed(sweep, "tracking", name="mlflow", uri=uri)
    catch_up(again, console)
    assert f"tracking.uri={uri}: would be executed or used in your name" in printed(console)
    with pytest.raises(SettingError, match=r"tracking\.uri=.*in your name.*trust=true"):
        show_dashboard(make_config("mode=dashboard", f"sweep={sweep.paths.root}"), console)
    assert not was_called(listener)


@pytest.mark.mlflow
def test_artifacts_go_nowhere_else_that_the_other_says(lab: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    sweep, console = sweep_in(lab, "tracking=mlflow"), terminal()
    store_runs(resolve(sweep.config), sweep.paths)
    sweep.paths.analysis.mkdir()
    sweep.paths.report.write_text("a report")
    catch_up(sweep, console)
    assert "dashboard:" in printed(console)
    assert "incomplete" not in printed(console)
    (page,) = (lab / "mlartifacts").rglob("report.html")
    assert page.read_text() == "a report"
    opened_to_all(lab)

    def point() -> None:
        with closing(sqlite3.connect(lab / "mlflow.db")) as store, store:
            store.execute("UPDATE runs SET artifact_uri = ?", (tmp_path.as_uri(),))

    as_the_other(point)
    console = terminal()
    catch_up(sweep, console)
    assert f"others may have written that they lie in {tmp_path.as_uri()}" in printed(console)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html"}
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_process_that_the_other_names_is_not_ended(lab: Path) -> None:
    sweep = shared_sweep(lab)
    run = sweep.paths.run(sweep.plan.runs[0].run_id)
    with subprocess.Popen(["/bin/sleep", "60"]) as mine:
        attempt = replace(submitted(run, "local"), worker=Process.of(mine.pid))
        opened_to_all(lab)
        as_the_other(attempt.write)
        for kill in (False, True):
            said = LocalLauncher(devices=None).stop([attempt], kill=kill)
            assert said is not None
            assert f"1.json names a process of somebody else, {mine.pid}" in said
        assert mine.poll() is None
        mine.kill()
