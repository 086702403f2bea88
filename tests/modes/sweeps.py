"""What tests of whole sweeps share."""

from pathlib import Path

from isosweep.store.paths import RunPaths
from isosweep.store.records import read_metrics
from tests.runs import reproducible, wait_for

QUIET = ("tracking=none",)


def runs(cwd: Path) -> list[RunPaths]:
    return [RunPaths(path) for path in sorted((cwd / "sweeps" / "runs").iterdir())]


def wait_until_some_run_trains(cwd: Path) -> RunPaths:
    begun: list[RunPaths] = []

    def training() -> bool:
        if (cwd / "sweeps" / "runs").exists():
            begun[:] = [r for r in runs(cwd) if len(read_metrics(r.metrics, r.records)) > 3]
        return bool(begun)

    wait_for(training)
    return begun[0]


def assert_same_records(cwd: Path, reference: Path) -> None:
    assert [run.run_id for run in runs(cwd)] == [run.run_id for run in runs(reference)]
    for run, other in zip(runs(cwd), runs(reference), strict=True):
        assert reproducible(run) == reproducible(other)
