"""Progress is told from what has changed, and its end by the time model."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from isosweep.modes import display_progress
from isosweep.modes.display_progress import Estimate, Progress
from isosweep.plan.cells import PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunView, view_run
from isosweep.store.submissions import close
from tests.modes.looked_after import printed, reported, submitted, sweep_in, terminal


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update is drawn."""
    monkeypatch.setattr(display_progress, "_REDRAW_S", -1.0)


def seen(run: RunPaths, planned: PlannedRun) -> list[tuple[PlannedRun, RunView]]:
    return [(planned, view_run(run))]


def test_a_terminal_shows_the_running_and_counts_the_others(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    going, ended, *_ = sweep.plan.runs
    running, over = (sweep.paths.run(run.run_id) for run in (going, ended))
    submitted(running)
    reported(running, "running", 0.25, going)
    close(submitted(over), "finished", "")
    reported(over, "finished", 1.0, ended)
    console = Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)
    with Progress(sweep.plan, sweep.paths, [], console) as progress:
        progress.update(seen(running, going), {})
    total = len(sweep.plan.runs)
    text = printed(console)
    assert "n=2 B=4 seed=0" in text
    assert "reward 0.250" in text
    assert f"1/{total} runs, {1.25 / total:.0%} of the compute, ETA ..." in text


def test_without_a_terminal_each_run_that_is_over_is_a_line(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first, second, *_ = sweep.plan.runs
    total = len(sweep.plan.runs)
    files = [sweep.paths.run(run.run_id) for run in (first, second)]
    console = terminal()
    with Progress(sweep.plan, sweep.paths, [], console, 2) as progress:
        for run, planned in zip(files, (first, second), strict=True):
            submission = submitted(run)
            reported(run, "running", 0.1, planned)
            progress.update(seen(run, planned), {})
            assert printed(console).count("\n") == (planned is second)
            status: Literal["finished", "failed"] = "finished" if planned is first else "failed"
            reported(run, status, 1.0 if planned is first else 0.4, planned)
            close(submission, status, "" if planned is first else "RuntimeError: planted")
            failed = {} if planned is first else {planned.run_id: "planted (tried 3 times)"}
            progress.update([], failed)
            progress.update([], failed)
    one, two = printed(console).splitlines()
    assert one.startswith(f"1/{total} done: n={first.num_generations} B=4 seed=0, reward 0.250, ")
    assert "; ETA " in one
    assert f"1/{total} done: n={second.num_generations}" in two
    assert ": failed (planted (tried 3 times)); ETA " in two


def test_a_run_that_waits_to_be_tried_again_is_no_line(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    planned = sweep.plan.runs[0]
    run = sweep.paths.run(planned.run_id)
    console = terminal()
    with Progress(sweep.plan, sweep.paths, [], console) as progress:
        submission = submitted(run)
        progress.update(seen(run, planned), {})
        close(submission, "lost", "NODE_FAIL")
        progress.update([], {})
    assert printed(console) == ""


def test_the_end_is_that_of_what_is_left_at_the_speed_that_was_measured(tmp_path: Path) -> None:
    base = sweep_in(tmp_path).plan.runs[0]
    seconds = {"a": 4e5, "b": 2e5, "c": 2e5}
    runs = [replace(base, run_id=name, seconds=s) for name, s in seconds.items()]
    estimate = Estimate(runs, {"a": 0.0, "b": 0.0, "c": 0.5}, places=2)
    estimate.step(0.0, 2)
    assert estimate.seconds_left(0.0) is None
    # Both have run for 20,000 s, in which 10,000 s of each were predicted to pass.
    estimate.came_forward(runs[0], 1 / 40)
    estimate.came_forward(runs[1], 1 / 20)
    estimate.step(20_000.0, 2)
    # Left: 390,000 s on one place; 190,000 and 100,000 s on the other.
    assert estimate.seconds_left(20_000.0) == pytest.approx(2 * 390_000, rel=0.01)


def test_a_picture_is_drawn_from_what_the_queue_has_read_and_shows_20_runs(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, f"grid.seeds=[{','.join(map(str, range(30)))}]")
    planned = sweep.plan.runs[:50]
    run = sweep.paths.run(planned[0].run_id)
    submitted(run)
    reported(run, "running", 0.25, planned[0])
    view = view_run(run)
    console = Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)
    read = []
    with (
        pytest.MonkeyPatch.context() as patch,
        Progress(sweep.plan, sweep.paths, [], console) as progress,
    ):
        patch.setattr(display_progress, "view_run", lambda paths: read.append(paths))
        progress.update([(each, view) for each in planned], {})
        progress.update([(each, view) for each in planned], {})
    assert read == []
    assert "30 more are running" in printed(console)


def test_steps_of_a_search_are_counted_on_and_each_is_told_once(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first, second, *_ = sweep.plan.runs
    last = first.milestones[-1]
    short = replace(first, milestones=(last / 2,))
    run = sweep.paths.run(first.run_id)
    over = sweep.paths.run(second.run_id)
    close(submitted(over), "finished", "")
    reported(over, "finished", 1.0, second)
    console = terminal()
    progress = Progress(
        replace(sweep.plan, runs=(short, second)), sweep.paths, [], console, 1, steps=True
    )
    submission = submitted(run)
    reported(run, "running", 0.25, first)
    progress.update(seen(run, short), {})
    reported(run, "finished", 0.5, first)
    close(submission, "finished", "")
    # The search asks for more before the queue has seen the end.
    progress = progress.asked_for_more(replace(sweep.plan, runs=(first, second)))
    submission = submitted(run)
    reported(run, "running", 0.75, first)
    progress.update(seen(run, first), {})
    reported(run, "finished", 1.0, first)
    close(submission, "finished", "")
    progress.update([], {})
    progress = progress.asked_for_more(replace(sweep.plan, runs=(first, second)))
    progress.update([], {})
    one, two = printed(console).splitlines()
    assert one.startswith(f"2/2 steps done: {first.label} to {last / 2:g} flops, reward ")
    assert two.startswith(f"3/3 steps done: {first.label} to {last:g} flops, reward ")


def test_an_end_that_falls_together_with_a_new_step_is_told(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first, second, *_ = sweep.plan.runs
    run = sweep.paths.run(first.run_id)
    console = terminal()
    progress = Progress(replace(sweep.plan, runs=(first,)), sweep.paths, [], console, steps=True)
    submission = submitted(run)
    reported(run, "running", 0.5, first)
    progress.update(seen(run, first), {})
    reported(run, "finished", 1.0, first)
    close(submission, "finished", "")
    progress = progress.asked_for_more(replace(sweep.plan, runs=(first, second)))
    progress.update([], {})
    assert printed(console).startswith(f"1/2 steps done: {first.label} to ")


def test_who_watches_counts_a_step_whose_run_is_at_its_next_one(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first = sweep.plan.runs[0]
    last = first.milestones[-1]
    short = replace(first, milestones=(last / 2,))
    run = sweep.paths.run(first.run_id)
    console = Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)
    progress = Progress(replace(sweep.plan, runs=(short,)), sweep.paths, [], console, steps=True)
    submitted(run)
    reported(run, "running", 0.75, first)
    progress = progress.asked_for_more(replace(sweep.plan, runs=(first,)))
    with progress:
        progress.update(seen(run, first), {})
    assert "1/2 steps, 75% of the compute" in printed(console)
