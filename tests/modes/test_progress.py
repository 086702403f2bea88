"""Progress is told from what has changed, and its end by the time model."""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.modes import progress as module
from isosweep.modes.progress import Progress
from isosweep.store.attempts import Status, newest
from tests.modes.looked_after import ended, printed, reported, submitted, sweep_in, terminal


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update is drawn."""
    monkeypatch.setattr(module, "_REDRAW_S", -1.0)


def test_a_terminal_shows_the_running_and_counts_the_others(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    first = sweep.plan.runs[0]
    run = sweep.paths.run(first.run_id)
    ended(sweep, 1)
    reported(submitted(run), Status.RUNNING, 0.25, first)
    console = terminal(150, force_terminal=True, color_system=None)
    progress = Progress(sweep.plan, sweep.paths, [], console)
    progress.update([(first, newest(run))], {})
    progress.stop()
    total = len(sweep.plan.runs)
    for said in ("n=2 B=4 seed=0", "reward 0.250", f"1/{total} runs, {1.25 / total:.0%} of the"):
        assert said in printed(console)


def test_without_a_terminal_each_run_that_is_over_is_a_line(tmp_path: Path) -> None:
    sweep, console = sweep_in(tmp_path), terminal()
    first, second, *_ = sweep.plan.runs
    progress = Progress(sweep.plan, sweep.paths, [], console, 2)
    one, two = (submitted(sweep.paths.run(each.run_id)) for each in (first, second))
    running = [
        (run, reported(attempt, Status.RUNNING, 0.1, run))
        for run, attempt in ((first, one), (second, two))
    ]
    progress.update(running, {})
    reported(running[0][1], Status.FINISHED, 1.0, first)
    progress.update(running[1:], {})
    progress.update(running[1:], {})
    reported(running[1][1], Status.FAILED, 0.4, second)
    failed = {second.run_id: "planted (tried 3 times)"}
    progress.update([], failed)
    progress.update([], failed)
    done, gave_up = printed(console).splitlines()
    counted = f"1/{len(sweep.plan.runs)} done: {first.label} to 1e11 FLOPs, reward 0.250, "
    assert done.startswith(counted)
    assert done.endswith(" left")
    assert f"{second.label} to " in gave_up
    assert ": failed (planted (tried 3 times)), about " in gave_up


def test_runs_that_another_sweep_trains_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SILENCE_S", 0.0)
    sweep, console = sweep_in(tmp_path), terminal()
    first = sweep.plan.runs[0]
    attempt = submitted(sweep.paths.run(first.run_id))
    Path(attempt.sweep).mkdir()
    (Path(attempt.sweep) / "plan.json").touch()
    Progress(sweep.plan, sweep.paths, [], console).update([(first, attempt)], {})
    said = "0 running, 1 queued, 1 of them trained by another sweep (somewhere): 0/"
    assert printed(console).startswith(said)


def test_a_run_that_is_asked_for_more_is_told_again(tmp_path: Path) -> None:
    sweep, console = sweep_in(tmp_path), terminal()
    whole = sweep.plan.runs[0]
    half = replace(whole, milestones=(whole.milestones[-1] / 2,))
    run = sweep.paths.run(whole.run_id)
    progress = Progress(replace(sweep.plan, runs=(half,)), sweep.paths, [], console)
    attempt = reported(submitted(run), Status.RUNNING, 0.25, whole)
    progress.update([(half, attempt)], {})
    # The search asks for more before the queue has seen the end.
    reported(attempt, Status.FINISHED, 0.5, whole)
    progress.extend([whole])
    attempt = reported(submitted(run), Status.RUNNING, 0.75, whole)
    progress.update([(whole, attempt)], {})
    reported(attempt, Status.FINISHED, 1.0, whole)
    progress.update([], {})
    assert [line.split(" to ")[1].split()[0] for line in printed(console).splitlines()] == [
        "5e10",
        "1e11",
    ]


def test_the_time_left_goes_by_the_speed_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, clock = sweep_in(tmp_path), {"now": 0.0}
    monkeypatch.setattr("time.monotonic", lambda: clock["now"])
    first, *_ = (replace(run, seconds=1e5) for run in sweep.plan.runs)
    run = submitted(sweep.paths.run(first.run_id))
    plan = replace(sweep.plan, runs=(first,))
    # What was trained before says nothing of the speed.
    attempt = reported(run, Status.RUNNING, 0.5, first)
    progress = Progress(plan, sweep.paths, [], terminal(), 1)
    progress.update([(first, attempt)], {})
    assert progress.seconds_left() is None
    # 20,000 s, in which 10,000 s were predicted to pass: 40,000 predicted ones are left.
    clock["now"] = 20_000.0
    progress.update([(first, reported(attempt, Status.RUNNING, 0.6, first))], {})
    assert progress.seconds_left() == pytest.approx(2 * 40_000, rel=0.01)
