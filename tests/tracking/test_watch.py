"""A run's files are read when they have changed, and once more after that."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.store.paths import RunPaths
from isosweep.store.records import append_metrics, append_record, append_warning
from isosweep.store.submissions import submit
from isosweep.store.warnings import HealthWarning
from isosweep.tracking.watch import RunWatch
from tests.tracking.sweeps import record, set_state, start, write_steps

WARNING = HealthWarning.without_value(1, "rule", "message")
CHANGES: dict[str, Callable[[RunPaths], object]] = {
    "state": lambda run: set_state(run, "finished", 40),
    "later attempt": lambda run: set_state(run, "running", 20, attempt=2),
    "submission": lambda run: submit(run, "local", {}, "sweep", "batch"),
    "record": lambda run: append_record(run.records, 1, record(30)),
    "record of another attempt": lambda run: append_record(run.records, 2, record(30)),
    "metrics": lambda run: append_metrics(run.metrics, 1, {"step": 21}),
    "metrics of another attempt": lambda run: append_metrics(run.metrics, 2, {"step": 21}),
    "warning": lambda run: append_warning(run.warnings, 1, WARNING),
    "base rates": lambda run: run.base_rates.write_text("{}"),
}


def settled(run: RunPaths) -> RunWatch:
    watch = RunWatch(run)
    while watch.changed():
        pass
    return watch


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen_and_read_twice(tmp_path: Path, change: str) -> None:
    run = RunPaths(tmp_path / "run")
    run.root.mkdir()
    start(run)
    start(run, attempt=2, parent=1)
    write_steps(run, range(21))
    write_steps(run, range(2), attempt=2)
    set_state(run, "running", 20)
    watch = settled(run)
    assert not watch.changed()
    CHANGES[change](run)
    assert watch.changed()
    assert watch.changed(), "what was written within the clock's tick is read by a second look"
    while watch.changed():
        pass
    assert not watch.changed()


def test_a_run_that_has_not_begun_is_looked_at_without_files(tmp_path: Path) -> None:
    watch = settled(RunPaths(tmp_path / "absent"))
    assert not watch.changed()
