"""`mode=dashboard`: MLflow's own pages of a sweep, on this machine or where its server is."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.modes.directory import stored_sweep
from isosweep.modes.signals import Signals
from isosweep.modes.terminal import say, typed
from isosweep.modes.track import asked_tracking

_HOST = "127.0.0.1"
# MLflow's pages answer after about 5 s of a core, which a busy machine stretches.
_START_S = 120.0
_STOP_S = 20.0


def show_dashboard(config: SweepConfig, console: Console) -> int:
    """Print where the sweep is seen, and serve that until Ctrl-C where no server does; 0.

    Raises SettingError where the store has nothing of the sweep.
    """
    from isosweep.preflight.machine import require_packages
    from isosweep.tracking.backend import fault
    from isosweep.tracking.mlflow import MlflowBackend

    sweep = stored_sweep(config)
    tracking = asked_tracking(config, sweep.config)
    analyse = f"mode=analyse {typed('sweep_dir', sweep.paths.root)}"
    if tracking.name != "mlflow":
        rule, remedy = "keeps no store that could be shown here", f"{analyse} tracking=mlflow"
        raise SettingError("tracking", tracking.name, rule, f"{remedy}, which makes it")
    require_own({"tracking.uri": tracking.uri})
    require_packages("mlflow")
    store = MlflowBackend(tracking, sweep.paths, sweep.plan)
    try:
        found = store.find()
    except Exception as error:
        raise SettingError("tracking.uri", store.name, fault(error), "tracking.uri=URI") from None
    if not found:
        rule = f"holds no run of the sweep in experiment {tracking.experiment}"
        own = f" tracking.uri={store.name}" if config.tracking.uri else ""
        raise SettingError("tracking.uri", store.name, rule, f"{analyse}{own}, which makes it")
    if store.served:
        say(console, f"dashboard: {store.link_at(store.name)}")
        return 0
    say(console, "starting MLflow's pages: about 10 s, longer while this machine trains")
    console.file.flush()
    with Signals() as signals, _mlflow_ui(store.uri) as server:
        if server.answers(signals):
            say(console, f"dashboard: {store.link_at(server.address, server.token)}")
            say(console, "shown until Ctrl-C; runs are not affected")
            console.file.flush()
        while not signals.asked:
            if server.process.poll() is not None:
                rule = f"mlflow ui does not come up: {server.last_lines()}"
                raise SettingError("tracking.uri", store.name, rule, analyse)
            signals.sleep(1.0)
    return 0


@dataclass(frozen=True, kw_only=True)
class _Server:
    """An MLflow server that answers only requests with `token`."""

    process: "subprocess.Popen[bytes]"
    log: IO[str]
    address: str
    token: str

    def answers(self, signals: Signals) -> bool:
        """Return whether the server answers before it ends or a signal arrives."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self.process.poll() is None and not signals.asked:
            try:
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
            except urllib.error.HTTPError:
                # It answers, and that nothing is shown without the token.
                return True
            except OSError:
                pass
            signals.sleep(0.2)
        return False

    def last_lines(self) -> str:
        """What the server printed last."""
        self.log.seek(0)
        return " / ".join(line.strip() for line in self.log.readlines()[-3:])


@contextmanager
def _mlflow_ui(uri: str) -> Iterator[_Server]:
    """A server of the store at `uri`, which ends with its workers."""
    from isosweep.tracking.guard import APP, TOKEN

    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = int(probe.getsockname()[1])
    token = secrets.token_urlsafe(32)
    command = [sys.executable, "-P", "-m", "mlflow", "ui", "--workers", "1", "--app-name", APP]
    # In the place of the working directory, where others may have put modules.
    command += ["--uvicorn-opts", "--app-dir /", "--host", _HOST, "--port", str(port)]
    # Others see a command line, and a password in it; job execution is eight more processes.
    own = {"MLFLOW_BACKEND_STORE_URI": uri, TOKEN: token, "PYTHONSAFEPATH": "1"}
    environment = {**os.environ, **own, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield _Server(process=process, log=log, address=f"http://{_HOST}:{port}", token=token)
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_S)
                    break
