"""Following a sweep: what it is to do is done once, whatever fails meanwhile."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from isosweep.launchers.make import make_launcher
from isosweep.modes import follow
from isosweep.modes.follow import DrivenSweep, run_on_finish
from isosweep.modes.progress import Progress
from isosweep.modes.signals import Signals
from isosweep.plan.cells import PlannedRun
from isosweep.search.candidates import Step
from tests.modes.looked_after import printed, sweep_in, terminal


@dataclass
class Searched:
    """A search that chooses one run, and then no more."""

    run: PlannedRun
    runs: list[PlannedRun] = field(default_factory=list)
    stop: str | None = None

    def next(self, failed: object) -> list[Step]:
        if self.runs:
            self.stop = "it is enough"
            return []
        self.runs = [self.run]
        end = self.run.milestones[-1]
        return [Step(run_id=self.run.run_id, milestone=end, compute=end, value=1.0, why="it is")]


@dataclass
class Queue:
    """A queue whose runs are over at once."""

    launcher: Any
    added: list[list[str]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    attempts: tuple[()] = ()
    busy: bool = False
    pause_s: float = 0.0

    def add(self, items: list[Any]) -> None:
        self.added.append([item.run.run_id for item in items])

    def step(self) -> None:
        """Nothing is left to do."""


# Nothing fails, or showing or queueing it does.
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_chosen_run_is_queued_once_whatever_fails(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = sweep_in(tmp_path)
    stored.paths.runs.mkdir(exist_ok=True)
    run = stored.plan.runs[0]
    search: Any = Searched(run)
    sweep = DrivenSweep(study=stored.study(), paths=stored.paths, search=search)
    monkeypatch.setattr(follow, "_FIRST_PAUSE_S", 0.0)
    extend, calls = Progress.extend, list[object]()

    def extended(progress: Progress, runs: Any) -> None:
        calls.append(runs)
        if len(calls) == at:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(stored.paths.runs))
        extend(progress, runs)

    monkeypatch.setattr(Progress, "extend", extended)
    queue: Any = Queue(launcher=make_launcher(stored.config))
    console = terminal()
    assert follow._follow(sweep, queue, console, Signals())
    assert queue.added == [[run.run_id]]
    said = printed(console)
    assert said.count("Input/output error; waiting until that passes") == min(at, 1)
    assert said.count("works again") == min(at, 1)
    assert said.count("search: stopped: it is enough") == 1


def failing(times: int = 1) -> Any:
    """What raises that the disk is full, so many times."""
    left = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full")] * times

    def act(*_: object) -> None:
        if left:
            raise left.pop()

    return act


def test_an_analysis_that_the_full_disk_does_not_take_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = sweep_in(tmp_path, f"launcher.on_finish='touch {tmp_path}/told'", "tracking=none")
    stored.paths.runs.mkdir(exist_ok=True)
    sweep = DrivenSweep(study=stored.study(), paths=stored.paths)
    queue: Any = Queue(launcher=make_launcher(stored.config))
    monkeypatch.setattr(follow, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(follow, "make_queue", lambda *_: queue)
    monkeypatch.setattr(follow, "analyse_sweep", failing())
    console = terminal()
    assert follow.follow_sweep(sweep, console) == 0
    assert (tmp_path / "told").exists()
    said = printed(console)
    assert said.count("/full: No space left on device; waiting until that passes") == 1
    assert said.count("/full works again") == 1


def test_a_command_has_the_facts_in_its_environment(tmp_path: Path) -> None:
    command = f"sh -c 'echo $ISOSWEEP_STATUS $ISOSWEEP_DONE > {tmp_path}/told'"
    assert run_on_finish(command, {"status": "failed", "done": 3}) is None
    assert (tmp_path / "told").read_text() == "failed 3\n"


def test_a_command_that_fails_or_hangs_is_reported_and_ended() -> None:
    said = run_on_finish("sh -c \"echo 'no such channel' >&2; exit 3\"", {})
    assert said == "no such channel"
    hangs = run_on_finish("sleep 30", {}, timeout_s=0.3)
    assert hangs == "sleep gave no answer in 0.3 s"
    assert "No such file" in (run_on_finish("/no/command", {}) or "")
