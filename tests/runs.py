"""What tests ask of runs and their processes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isosweep.store.paths import RunPaths
from isosweep.store.records import log_files, read_records


def reproducible(run: RunPaths) -> list[dict[str, Any]]:
    """What of the run's records is the same in every repetition of it."""
    return [record.reproducible() for record in read_records(run.records).records]


def log_lines(log: Path) -> list[dict[str, Any]]:
    """Every line of every file of a log, by attempt."""
    texts = [path.read_text() for path in log_files(log).values()]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def wait_for(condition: Callable[[], object], seconds: float = 120, pause: float = 0.02) -> None:
    """Return once `condition` gives something true, looked at every `pause` seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
