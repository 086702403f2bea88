"""Progress is told from what has changed, and its end by the time model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.modes import display_progress
from isosweep.modes.display_progress import Estimate, Progress
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.attempts import Attempt, Status, newest
from isosweep.words.numbers import amount
from tests.modes.looked_after import ended, printed, reported, submitted, sweep_in, terminal


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update is drawn."""
    monkeypatch.setattr(display_progress, "_REDRAW_S", -1.0)


class Watched:
    """A sweep whose first run is followed, on a console of its own."""

    def __init__(self, directory: Path, *, screen: bool = False, **how: Any) -> None:
        self.sweep = sweep_in(directory)
        self.first, self.second, *_ = self.sweep.plan.runs
        self.total, self.last = len(self.sweep.plan.runs), self.first.milestones[-1]
        self.run = self.sweep.paths.run(self.first.run_id)
        # What a search has asked for of it before it asks for all.
        self.half = replace(self.first, milestones=(self.last / 2,))
        self.console = (
            terminal(150, force_terminal=True, color_system=None) if screen else terminal()
        )
        self.how = how

    def plan(self, *runs: PlannedRun) -> Plan:
        return replace(self.sweep.plan, runs=runs) if runs else self.sweep.plan

    def progress(self, *runs: PlannedRun) -> Progress:
        return Progress(self.plan(*runs), self.sweep.paths, [], self.console, **self.how)

    def goes(self, progress: Progress, share: float, planned: PlannedRun | None = None) -> Attempt:
        """It is submitted, at work with so much behind it, and seen."""
        attempt = reported(submitted(self.run), Status.RUNNING, share, self.first)
        progress.update([(planned or self.first, attempt)], {})
        return attempt

    def ends(self, attempt: Attempt, share: float) -> None:
        reported(attempt, Status.FINISHED, share, self.first)

    @property
    def text(self) -> str:
        return printed(self.console)


def test_a_terminal_shows_the_running_and_counts_the_others(tmp_path: Path) -> None:
    watched = Watched(tmp_path, screen=True)
    ended(watched.sweep, 1)
    reported(submitted(watched.run), Status.RUNNING, 0.25, watched.first)
    with watched.progress() as progress:
        progress.update([(watched.first, newest(watched.run))], {})
    assert "n=2 B=4 seed=0" in watched.text
    assert "reward 0.250" in watched.text
    total = watched.total
    assert f"1/{total} runs, {1.25 / total:.0%} of the compute" in watched.text


def test_without_a_terminal_each_run_that_is_over_is_a_line(tmp_path: Path) -> None:
    watched = Watched(tmp_path, places=2)
    first, second = watched.first, watched.second
    with watched.progress() as progress:
        watched.ends(watched.goes(progress, 0.1), 1.0)
        assert watched.text == ""
        progress.update([], {})
        progress.update([], {})
        other = watched.sweep.paths.run(second.run_id)
        attempt = reported(submitted(other), Status.RUNNING, 0.1, second)
        progress.update([(second, attempt)], {})
        assert watched.text.count("\n") == 1
        reported(attempt, Status.FAILED, 0.4, second)
        failed = {second.run_id: "planted (tried 3 times)"}
        progress.update([], failed)
        progress.update([], failed)
    one, two = watched.text.splitlines()
    counted = f"1/{watched.total} done: n="
    assert one.startswith(f"{counted}{first.num_generations} B=4 seed=0, reward 0.250, ")
    assert one.endswith(" left")
    assert f"{counted}{second.num_generations}" in two
    assert ": failed (planted (tried 3 times)), about " in two


def test_the_end_is_that_of_what_is_left_at_the_speed_that_was_measured(tmp_path: Path) -> None:
    base = sweep_in(tmp_path).plan.runs[0]
    seconds = {"a": 4e5, "b": 2e5, "c": 2e5}
    runs = [replace(base, run_id=name, seconds=s) for name, s in seconds.items()]
    estimate = Estimate(places=2)
    for run, behind in zip(runs, (0.0, 0.0, 0.5), strict=True):
        estimate.add(run, behind)
    estimate.step(0.0, 2)
    assert estimate.seconds_left(0.0) is None
    # Both have run for 20,000 s, in which 10,000 s of each were predicted to pass.
    estimate.came_forward(runs[0], 1 / 40)
    estimate.came_forward(runs[1], 1 / 20)
    estimate.step(20_000.0, 2)
    # Left: 390,000 s on one place; 190,000 and 100,000 s on the other.
    assert estimate.seconds_left(20_000.0) == pytest.approx(2 * 390_000, rel=0.01)


def test_steps_of_a_search_are_counted_on_and_each_is_told_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path, places=1, steps=True)
    ended(watched.sweep, 1)
    progress = watched.progress(watched.half, watched.second)
    # The search asks for more before the queue has seen the end.
    watched.ends(watched.goes(progress, 0.25, watched.half), 0.5)
    progress.extend((watched.first, watched.second))
    watched.ends(watched.goes(progress, 0.75), 1.0)
    progress.update([], {})
    progress.extend((watched.first, watched.second))
    progress.update([], {})
    one, two = watched.text.splitlines()
    label, last = watched.first.label, watched.last
    assert one.startswith(f"2/2 steps done: {label} to {amount(last / 2, 'flops')}, reward ")
    assert two.startswith(f"3/3 steps done: {label} to {amount(last, 'flops')}, reward ")
