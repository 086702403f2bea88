"""Workers of this machine that execute the code that an attempt has for a job."""

import json
from pathlib import Path
from typing import Any

from isosweep.launchers.launcher import Order
from isosweep.launchers.local import LocalLauncher
from isosweep.store.attempts import Attempt, create_attempt
from isosweep.store.paths import RunPaths
from tests.launchers.fake import the_plan
from tests.runs import wait_for

# Many times what a start takes.
TIMEOUT_S = 300.0


def _run_code(attempt: str) -> int:
    exec(json.loads(Path(attempt).read_text())["job"]["code"], {})
    return 0


class CodeLauncher(LocalLauncher):
    """Its processes execute the code instead of training."""

    execute = staticmethod(_run_code)


def order_of(launcher: LocalLauncher, root: Path, job: dict[str, Any], place: int = 0) -> Order:
    run = RunPaths(root)
    root.mkdir(parents=True, exist_ok=True)
    devices = launcher.devices(place)
    attempt = create_attempt(run, "local", str(root), job, "a-batch", devices=devices)
    assert attempt is not None
    order = Order(attempt=attempt, run=the_plan().runs[0])
    order.logs.mkdir(parents=True)
    return order


def start(launcher: LocalLauncher, root: Path, code: str, place: int = 0) -> Attempt:
    """Execute `code`, in a process whose run lies at `root`."""
    order = order_of(launcher, root, {"code": code}, place)
    refused = launcher.submit([order])
    assert refused == [None], refused
    return order.attempt


def pid_of(launcher: LocalLauncher, attempt: Attempt) -> int:
    return launcher._started[attempt.path].pid


def ended(launcher: LocalLauncher, attempt: Attempt) -> bool:
    return launcher.observe([attempt])[0].status == "ended"


def outputs(attempt: Attempt) -> tuple[str, str]:
    logs = attempt.run.attempt_logs(1)
    out, err = (logs / f"worker.{name}" for name in ("out", "err"))
    # The process makes them itself.
    return out.read_text() if out.exists() else "", err.read_text() if err.exists() else ""


def result(launcher: LocalLauncher, attempt: Attempt) -> Any:
    """What the process printed as JSON, in its last line."""
    wait_for(lambda: ended(launcher, attempt), TIMEOUT_S)
    out, err = outputs(attempt)
    assert out, err
    return json.loads(out.splitlines()[-1])


def sleeping(go: Path) -> str:
    """Code that waits for a file, and prints its process id."""
    return f"""
import os, time
while not os.path.exists({str(go)!r}):
    time.sleep(0.02)
print(os.getpid())
"""
