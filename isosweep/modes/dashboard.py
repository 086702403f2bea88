"""`mode=dashboard`: MLflow's own pages of a sweep, on this machine or where its server is."""

import html
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
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.signals import Signals
from isosweep.modes.terminal import say, typed
from isosweep.modes.track import asked_tracking
from isosweep.tracking.faults import store_name
from isosweep.tracking.guard import APP, TOKEN

_HOST = "127.0.0.1"
# MLflow's pages answer after about 5 s of a core, which a busy machine stretches.
_START_S = 120.0
_STOP_S = 20.0
# Lines of the server's own that are shown where it does not start.
_LAST_LINES = 3


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """The store that has the sweep; `name`: its URI without what may be secret; `served`: a server
    answers for it."""

    uri: str
    name: str
    served: bool
    experiment_id: str


def show_dashboard(config: SweepConfig, console: Console) -> int:
    """Print where the sweep is seen, and serve that until Ctrl-C where no server does; 0.

    Raises SettingError where the store has nothing of the sweep.
    """
    from isosweep.tracking.view import link

    sweep = stored_sweep(config)
    shown = _store(config, sweep)
    if shown.served:
        _show_link(link(shown.name, shown.experiment_id, sweep.plan), config, console)
        return 0

    with tempfile.TemporaryDirectory(prefix="isosweep-") as own:

        def told(address: str, token: str) -> None:
            url = link(address, shown.experiment_id, sweep.plan, token)
            _show_link(url, config, console, Path(own))
            say(console, "shown until Ctrl-C; runs are not affected")
            console.file.flush()

        say(console, "starting MLflow's pages: about 10 s, longer while this machine trains")
        console.file.flush()
        _serve(shown.uri, told)
    return 0


def _store(config: SweepConfig, sweep: StoredSweep) -> _Shown:
    """The store that tracks the sweep, with what the link rests on."""
    from isosweep.preflight.machine import require_mlflow
    from isosweep.tracking.faults import StoreError
    from isosweep.tracking.store import Store
    from isosweep.tracking.view import experiment_tags

    tracking = asked_tracking(config, sweep.config)
    if tracking.name != "mlflow":
        rule = "keeps no store that could be shown here"
        raise SettingError("tracking", tracking.name, rule, _makes(sweep, "tracking=mlflow"))
    require_own({"tracking.uri": tracking.uri})
    require_mlflow()
    store = Store(tracking.uri, tracking.experiment, sweep.paths.runs.parent)
    try:
        with store.used():
            found = store.found(sweep.plan)
        # A store that cannot be written is seen all the same.
        with suppress(StoreError), store.used():
            if found:
                store.show(experiment_tags(sweep.plan))
    except StoreError as error:
        rule = str(error).removeprefix(f"{store.name}: ")
        raise SettingError("tracking.uri", store.name, rule, "tracking.uri=URI") from None
    if not found:
        given = f"tracking.uri={store.name}" if config.tracking.uri else ""
        rule = f"holds no run of the sweep in experiment {tracking.experiment}"
        raise SettingError("tracking.uri", store.name, rule, _makes(sweep, given))
    return _Shown(
        uri=store.uri, name=store.name, served=store.served, experiment_id=store.experiment_id
    )


def _makes(sweep: StoredSweep, setting: str = "") -> str:
    return (
        f"mode=analyse {typed('sweep_dir', sweep.paths.root)} {setting}".rstrip()
        + ", which makes it"
    )


def _show_link(url: str, config: SweepConfig, console: Console, own: Path | None = None) -> None:
    """Print the address, and open it where there is a display; `own`: a directory of one's own, by
    a file in which it is opened: others see what a browser is started with."""
    say(console, f"dashboard: {url}")
    console.file.flush()
    display = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
    if config.open_browser and sys.stdout.isatty() and display:
        with suppress(webbrowser.Error):
            webbrowser.open(url if own is None else _leading_to(url, own))


def _leading_to(url: str, own: Path) -> str:
    """A page in `own` that leads there."""
    page = own / "link.html"
    page.write_text(f'<meta http-equiv="refresh" content="0;url={html.escape(url)}">')
    return page.as_uri()


def _serve(uri: str, told: Callable[[str, str], None]) -> None:
    """Have an MLflow server of the store until a signal asks to end; `told` gets its address, and
    the token without which it answers nobody.

    Raises SettingError where it does not come up, or ends by itself.
    """
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-P", "-m", "mlflow", "ui", "--workers", "1", "--app-name", APP]
    # In the place of the working directory, where others may have put modules.
    command += ["--uvicorn-opts", "--app-dir /"]
    command += ["--host", _HOST, "--port", str(port)]
    # Eight processes less, which would run evaluations.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment["PYTHONSAFEPATH"] = "1"
    # Everybody on the machine sees what a command is given, a password in it too.
    environment["MLFLOW_BACKEND_STORE_URI"] = uri
    environment[TOKEN] = token = secrets.token_urlsafe(32)
    with Signals() as signals, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            address = f"http://{_HOST}:{port}"
            if _wait(address, process, signals):
                told(address, token)
            while not signals.asked and process.poll() is None:
                signals.sleep(1.0)
        finally:
            _stop(process)
        if not signals.asked:
            raise SettingError("tracking.uri", store_name(uri), _fault(log), "mode=analyse")


def _wait(address: str, process: "subprocess.Popen[bytes]", signals: Signals) -> bool:
    """Whether the server answers, before it ends or somebody wants that."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None and not signals.asked:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
        except urllib.error.HTTPError:
            # It answers, and that nothing is shown without the token.
            return True
        except OSError:
            pass
        signals.sleep(0.2)
    return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers, which are a group of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
            return


def _fault(log: IO[str]) -> str:
    log.seek(0)
    said = [line.strip() for line in log.read().splitlines() if line.strip()]
    return "mlflow ui does not come up: " + " / ".join(said[-_LAST_LINES:])
