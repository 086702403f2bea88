"""A copy of a sweep whose runs are at work has no part in their jobs."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from tests.conftest import SMALL
from tests.contract.surface import isosweep, runs_of

# Long enough to be at work for as long as this test takes.
_SWEEP = ("budget=1e12", *SMALL, "grid.num_generations=[4]", "tracking=none", "sweep=s")


def _standing(sweeps: Path) -> str:
    done = isosweep("mode=status", f"sweep={sweeps / 's'}", "format=json", cwd=sweeps.parent)
    document: dict[str, Any] = json.loads(done.stdout)
    (run,) = document["runs"]
    return str(run["standing"])


def _wait_for_steps(sweeps: Path) -> None:
    deadline = time.monotonic() + 120
    while not any(sweeps.glob("runs/*/metrics/*.jsonl")):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_cancel_in_a_copy_leaves_the_renamed_originals_job_alone(tmp_path: Path) -> None:
    original, archived, copied = (tmp_path / name for name in ("sweeps", "archived", "copied"))
    isosweep("mode=launch", *_SWEEP, cwd=tmp_path)
    try:
        _wait_for_steps(original)
        shutil.copytree(original, copied)
        (run,) = runs_of(tmp_path)
        # A worker fails at the next line that it cannot write.
        os.kill(pid := run.state["pid"], signal.SIGSTOP)
        original.rename(archived)
        done = isosweep("mode=cancel", f"sweep={copied / 's'}", cwd=tmp_path)
        assert "0 cancelled" in done.stdout
        assert _standing(archived) == "running"
    finally:
        archived.rename(original)
        os.kill(pid, signal.SIGCONT)
        done = isosweep("mode=cancel", f"sweep={original / 's'}", cwd=tmp_path)
    assert "1 cancelled: 1 running" in done.stdout
