"""One store for several processes: made at once, or behind a server, which comes and goes."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.tracking.background import BackgroundTracker
from tests.runs import wait_for
from tests.tracking.sweeps import EVAL_STEPS, Sweep, set_state, sync_command, write_steps

# Servers take long to start.
pytestmark = [pytest.mark.mlflow, pytest.mark.slow]


class MlflowServer:
    """One on a port of its own, with a database of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.root.mkdir(exist_ok=True)
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--backend-store-uri", f"sqlite:///{self.root / 'server.db'}"),
            *("--artifacts-destination", (self.root / "artifacts").as_uri()),
        ]
        with (self.root / "log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.root,
                # Eight processes less, which would run evaluations.
                env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        pytest.fail(f"no mlflow server: {(self.root / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process is not None:
            # The server's workers are its children, in a group of their own.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(timeout=30)
            self._process = None

    def pause(self, *, still: bool) -> None:
        """Have it hang, or go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP if still else signal.SIGCONT)


def test_several_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            sync_command(tmp_path, directory=name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # One sweep twice, and another.
        for name in ("a", "a", "b")
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert outputs == ["", "", ""], "MLflow's own INFO lines are kept out of the terminal"
    for name in ("a", "b"):
        assert len(Sweep(tmp_path, directory=name).stored()) == 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """An `mlflow server`, in which each test has an experiment."""
    server = MlflowServer(tmp_path_factory.mktemp("server"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_a_server_is_used_over_http(untracked: Sweep, server: MlflowServer) -> None:
    sweep = untracked
    sweep.config = replace(sweep.config, uri=server.address, experiment="used")
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    sweep.tracker().sync()
    assert sweep.histories() == before
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    set_state(sweep.runs[0], "failed", 20, reason="out of memory")
    tracker.sync()
    set_state(sweep.runs[0], "running", 20, attempt=2)
    tracker.sync()
    figure = sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    tracker.finish("FINISHED", [figure], None)
    stored = sweep.stored()
    assert (stored["parent"].info.status, sweep.child().info.status) == ("FINISHED", "RUNNING")
    [artifact] = sweep.client().list_artifacts(stored["parent"].info.run_id, "figures")
    assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}


def test_a_server_stops_hangs_and_comes_back(
    untracked: Sweep,
    server: MlflowServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sweep, said = untracked, list[str]()
    secret, named = (server.address.replace("//", f"//{who}@") for who in ("me:secret", "me"))
    sweep.config = replace(sweep.config, uri=secret, experiment="stopped")
    background = BackgroundTracker(sweep.tracker(), 0.2, said.append)
    reader = Sweep(sweep.root, uri=server.address, experiment="stopped")
    wait_for(lambda: _there(reader))
    server.stop()
    write_steps(sweep.runs[0], range(21, 31))
    wait_for(lambda: len(said) == 1)
    server.start()
    wait_for(lambda: len(said) == 2)
    # Only while it hangs: a server that has just begun may take as long for its first answers.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    server.pause(still=True)
    write_steps(sweep.runs[0], range(31, 41))
    set_state(sweep.runs[0], "finished", 40)
    wait_for(lambda: len(said) == 3)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "25")
    server.pause(still=False)
    wait_for(lambda: len(said) == 4)
    background.close("FINISHED", [], None)
    assert [line.startswith(f"tracking: {named}: ") for line in said] == [True] * 4
    down, up = "the runs go on, and the view catches up later", "it works again and is up to date"
    assert [down in line for line in said] == [True, False, True, False]
    assert [up in line for line in said] == [False, True, False, True]
    assert "Connection refused" in said[0]
    assert "timed out" in said[2]
    assert "secret" not in "".join(said)
    assert reader.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert reader.steps("train/loss") == list(range(2, 41, 2))
    assert reader.child().info.status == "FINISHED"
    assert capfd.readouterr() == ("", "")


def _there(reader: Sweep) -> bool:
    experiment = reader.client().get_experiment_by_name("stopped")
    return experiment is not None and len(reader.stored()) == 2
