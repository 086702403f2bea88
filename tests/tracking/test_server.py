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

from isosweep.tracking.background import fault
from isosweep.tracking.tracker import Overview
from tests.tracking.sweeps import Sweep, set_state, sync_command, write_steps

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
    figure = sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    tracker = sweep.tracker(Overview(files=((figure, "figures"),)))
    tracker.sync()
    before = sweep.histories()
    sweep.tracker().sync()
    assert sweep.histories() == before
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    # It is away for a while.
    server.stop()
    write_steps(sweep.runs[0], range(21, 31))
    set_state(sweep.runs[0], "failed", 30, reason="out of memory")
    with pytest.raises(Exception, match="refused") as failed:
        tracker.sync()
    assert "Connection refused" in fault(failed.value)
    server.start()
    tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20, 30]
    set_state(sweep.runs[0], "running", 30, attempt=2)
    tracker.sync()
    tracker.finish("FINISHED")
    stored = sweep.stored()
    assert (stored["parent"].info.status, sweep.child().info.status) == ("FINISHED", "RUNNING")
    [artifact] = sweep.client().list_artifacts(stored["parent"].info.run_id, "figures")
    assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}
