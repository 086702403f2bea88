"""One store for several processes: made at once, or behind a server, which comes and goes."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.tracking.tracker import Overview, fault
from tests.runs import wait_for
from tests.tracking.sweeps import Sweep, set_state, sync_command, write_steps

# Servers take long to start.
pytestmark = [pytest.mark.mlflow, pytest.mark.slow]


def test_several_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    # One sweep twice, and another.
    commands = [sync_command(tmp_path, directory=name) for name in ("a", "a", "b")]
    out, err = subprocess.PIPE, subprocess.STDOUT
    processes = [subprocess.Popen(each, text=True, stdout=out, stderr=err) for each in commands]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert outputs == ["", "", ""], "MLflow's own INFO lines are kept out of the terminal"
    for name in ("a", "b"):
        assert len(Sweep(tmp_path, directory=name).stored()) == 1


class MlflowServer:
    """One on a port of its own, with a database of its own."""

    def __init__(self, root: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address, self._root = f"http://127.0.0.1:{port}", root
        self._command = [
            *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", f"sqlite:///{root / 'server.db'}"),
            *("--artifacts-destination", (root / "artifacts").as_uri()),
        ]

    def __enter__(self) -> None:
        # Eight processes less, which would run evaluations.
        own = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self._root / "log").open("a") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._root, env=own, stdout=log, stderr=log, process_group=0
            )
        wait_for(self._answers, pause=0.2)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._root / "log").read_text()[-2000:]
        with suppress(OSError), urllib.request.urlopen(f"{self.address}/health", timeout=5):
            return True
        return False

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(timeout=30)


def test_a_server_is_used_over_http(sweep: Sweep, tmp_path: Path) -> None:
    (sweep.root / "mlflow.db").unlink()
    server, figure = MlflowServer(tmp_path), sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    sweep.config = replace(sweep.config, uri=server.address)
    tracker = sweep.tracker(Overview(files=((figure, "figures"),)))
    with server:
        tracker.sync()
        before = sweep.histories()
        sweep.sync()
        assert sweep.histories() == before
        assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    # It is away for a while.
    write_steps(sweep.runs[0], range(21, 31))
    set_state(sweep.runs[0], "failed", 30, reason="out of memory")
    with pytest.raises(Exception, match="refused") as failed:
        tracker.sync()
    assert "Connection refused" in fault(failed.value)
    with server:
        tracker.sync()
        assert sweep.steps("heldout/avg_at_k") == [0, 10, 20, 30]
        set_state(sweep.runs[0], "running", 30, attempt=2)
        tracker.sync()
        tracker.finish("FINISHED")
        parent = sweep.stored()["parent"].info
        assert (parent.status, sweep.child().info.status) == ("FINISHED", "RUNNING")
        [artifact] = sweep.client().list_artifacts(parent.run_id, "figures")
        assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}
