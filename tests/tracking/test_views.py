"""What every view of a sweep shows, in MLflow and in W&B: the same, of the same files."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image

from isosweep.tracking.tracker import Overview
from tests.tracking.sweeps import (
    EVAL_STEPS,
    START,
    Sweep,
    half_done,
    send,
    set_state,
    start,
    sync_command,
    write_steps,
)

pytestmark = pytest.mark.mlflow
Kept = Literal["mlflow", "wandb"]


@pytest.fixture(params=["mlflow", "wandb"])
def sweep(request: pytest.FixtureRequest, tmp_path: Path, empty_store: Path) -> Sweep:
    """Two runs, the first of them half done."""
    sweep = half_done(tmp_path / "sweeps of mine", request.param)
    if request.param == "wandb":
        sweep.server = request.getfixturevalue("server")
    shutil.copy(empty_store, sweep.root / "mlflow.db")
    return sweep


def synced(sweep: Sweep) -> None:
    """By a process that sees it to its end."""
    tracker = sweep.tracker()
    tracker.sync()
    tracker.backend.close()


def test_runs_have_their_params_standings_and_points(sweep: Sweep) -> None:
    synced(sweep)
    shown = sweep.shown()
    run = shown[sweep.runs[0].run_id]
    assert len(shown) == 2
    assert (run.name, shown["parent"].name) == ("n=2 seed=0", "all of it's a sweep")
    own = {"n": "2", "B": "4", "T": "40", "seed": "0", "learning_rate": "0.001"}
    own |= {"model": "tiny", "task": "sort", "beta": "0.5"}
    assert {key: run.params[key] for key in own} == own
    assert shown["parent"].params["budgets"] == "2e+10,4e+10"
    assert run.tags["status"] == "running"
    assert run.tags["budgets_reached"] == "2e+10"
    assert run.points["heldout/avg_at_k"] == [(step, step / 160) for step in (0, 10, 20)]
    assert run.points["compute/flops"] == [(step, step * 1e9) for step in (0, 10, 20)]
    assert [step for step, _ in run.points["train/loss"]] == list(range(2, 21, 2))
    assert run.values["heldout/avg_at_k"] == 20 / 160
    assert shown["parent"].values["sweep/best_run_reward"] == 20 / 160


def _goes_on(sweep: Sweep) -> None:
    write_steps(sweep.runs[0], range(21, 41))


def _repeated(sweep: Sweep) -> None:
    start(sweep.runs[0], attempt=2, parent=1, resumed=10)
    write_steps(sweep.runs[0], range(11, 41), attempt=2, shift=500)


@pytest.mark.parametrize("more", [_goes_on, _repeated])
def test_no_point_is_there_twice(
    sweep: Sweep, more: Callable[[Sweep], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sweep.tracker()
    first.sync()
    first.sync()
    more(sweep)
    first.sync()
    set_state(sweep.runs[0], "finished", 40, attempt=2)
    first.sync()
    first.backend.close()
    for _ in range(2):
        tracker = sweep.tracker()
        tracker.sync()
        # Files are read once more after a change: of nothing new nothing is made.
        with monkeypatch.context() as patched:
            patched.setattr(tracker.backend, "create", None)
            tracker.sync()
        tracker.backend.close()
        run = sweep.shown()[sweep.runs[0].run_id]
        assert [step for step, _ in run.points["heldout/avg_at_k"]] == list(EVAL_STEPS)
        assert [step for step, _ in run.points["train/loss"]] == list(range(2, 41, 2))
        assert run.tags["status"] == "done"


def test_a_driver_that_was_killed_leaves_nothing_that_the_next_one_does_not_mend(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    kill = f"; import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    command = sync_command(sweep.root, kill, name=sweep.config.name, max_points=25)
    # Its W&B is its own, and not this process's.
    own = {key: value for key, value in os.environ.items() if key != "WANDB_SERVICE"}
    killed = subprocess.run(command, env=own, check=False)
    assert killed.returncode == -signal.SIGKILL
    _goes_on(sweep)
    set_state(sweep.runs[0], "finished", 40)
    synced(sweep)
    if sweep.server is not None:
        send(sweep)
    shown = sweep.shown()
    assert len(shown) == 2
    points = shown[sweep.runs[0].run_id].points
    assert [step for step, _ in points["heldout/avg_at_k"]] == list(EVAL_STEPS)
    assert [step for step, _ in points["train/loss"]] == list(range(2, 41, 2))


def test_what_came_of_a_sweep_follows_the_next_analysis(sweep: Sweep) -> None:
    _goes_on(sweep)
    set_state(sweep.runs[0], "finished", 40)
    run = sweep.runs[0].run_id
    figure, report = sweep.root / "reward.png", sweep.root / "report.html"
    Image.new("RGB", (300, 200)).save(figure)
    report.write_text("<p>the report")
    for when, verdict, reward in ((START, "growing", 0.25), (START + 9, "saturated", 0.2)):
        told = Overview(
            note=f"**{verdict}.**",
            tags={None: {"verdict": verdict}, run: {"on_frontier": "true"}},
            metrics={run: {"reward_1_2e10": reward}},
            unix_time=when,
            files=((figure, "figures"), (report, "")),
        )
        tracker = sweep.tracker(told)
        tracker.sync()
        tracker.finish("FINISHED")
        shown = sweep.shown()
        assert shown["parent"].tags["verdict"] == verdict
        assert shown[run].tags["on_frontier"] == "true"
        assert shown[run].values["reward_1_2e10"] == reward
        assert [step for step, _ in shown[run].points["heldout/avg_at_k"]] == list(EVAL_STEPS)
