"""What tests of whole sweeps share."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isosweep.store.paths import RunPaths
from isosweep.store.records import read_metrics, read_records

QUIET = ("tracking=none",)


def runs(cwd: Path) -> list[RunPaths]:
    return [RunPaths(path) for path in sorted((cwd / "sweeps" / "runs").iterdir())]


def reproducible(run: RunPaths) -> list[dict[str, Any]]:
    return [record.reproducible() for record in read_records(run.records).records]


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def wait_until_some_run_trains(cwd: Path) -> RunPaths:
    found: list[RunPaths] = []

    def training() -> bool:
        if (cwd / "sweeps" / "runs").exists():
            found[:] = [r for r in runs(cwd) if len(read_metrics(r.metrics, r.records)) > 3]
        return bool(found)

    wait_for(training)
    return found[0]


def assert_same_records(cwd: Path, reference: Path) -> None:
    assert [run.run_id for run in runs(cwd)] == [run.run_id for run in runs(reference)]
    for run, other in zip(runs(cwd), runs(reference), strict=True):
        assert reproducible(run) == reproducible(other)
