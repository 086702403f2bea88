"""One store for several processes: made at once, or behind a server."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tracking.sweeps import Sweep, set_state

pytestmark = [
    pytest.mark.mlflow,
    # Servers take long to start.
    pytest.mark.slow,
    # MLflow 3.17's own table definitions under SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
]

SYNC_ONE = """
import sys
from pathlib import Path
from tests.tracking.sweeps import Sweep
Sweep(Path(sys.argv[1])).tracker().sync()
"""


def test_two_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    command = [sys.executable, "-c", SYNC_ONE, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs == ["", ""], "MLflow's own INFO lines are kept out of the terminal"
    assert len(sweep.stored()) == 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an `mlflow server` of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = tmp_path / "server"
    root.mkdir()
    address = f"http://127.0.0.1:{port}"
    with (root / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--backend-store-uri", f"sqlite:///{root / 'server.db'}"),
                *("--artifacts-destination", (root / "artifacts").as_uri()),
            ],
            cwd=root,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for(f"{address}/health", process, root / "log")
            yield address
        finally:
            # The server's workers are its children, in a group of their own.
            os.killpg(process.pid, 15)
            process.wait(timeout=30)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"no mlflow server: {log.read_text()[-2000:]}")


def test_a_server_is_used_over_http(untracked: Sweep, server: str) -> None:
    sweep = untracked
    sweep.config = replace(sweep.config, uri=server)
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
