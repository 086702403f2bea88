"""`mode=dashboard`: MLflow's own server over the sweep's store, or the address of one that runs."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.modes.signals import Signals
from isosweep.modes.sweeps import stored_sweep
from isosweep.modes.terminal import say, typed
from isosweep.modes.tracking import asked_tracking


def show_dashboard(config: SweepConfig, console: Console) -> int:
    """Print where the sweep is seen, and run MLflow's server until Ctrl-C where none is named;
    returns 0, or the server's status where it ends by itself.

    Raises SettingError where the store has nothing of the sweep.
    """
    from isosweep.preflight.machine import require_packages
    from isosweep.tracking.mlflow import MlflowBackend
    from isosweep.tracking.tracker import fault

    sweep = stored_sweep(config)
    tracking = asked_tracking(config, sweep.config)
    analyse = f"mode=analyse {typed('sweep', sweep.paths.root)}"
    if tracking.name != "mlflow":
        rule, remedy = "keeps no store that could be shown here", f"{analyse} tracking=mlflow"
        raise SettingError("tracking", tracking.name, rule, f"{remedy}, which makes it")
    require_own(("tracking.uri", tracking.uri))
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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    with Signals() as signals:
        # What a user adds in the pages has its files beside the sweeps. A URI may have a password.
        server = subprocess.Popen(
            command,
            cwd=sweep.paths.runs.parent,
            env=os.environ | {"MLFLOW_BACKEND_STORE_URI": store.uri},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        say(console, f"dashboard: {store.link_at(f'http://127.0.0.1:{port}')}")
        say(console, "shown from in about 10 s until Ctrl-C; runs are not affected")
        console.file.flush()
        while not signals.asked and server.poll() is None:
            signals.sleep(0.5)
        ended = server.poll()
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()
    return 0 if ended is None else 1
