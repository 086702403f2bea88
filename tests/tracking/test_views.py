"""What every view of a sweep shows, in MLflow and in W&B: the same, of the same files."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from isosweep.tracking.tracker import Overview
from tests.tracking.sweeps import (
    EVAL_STEPS,
    START,
    TRAIN_STEPS,
    Sweep,
    send,
    set_state,
    start,
    sync_command,
    write_steps,
)

pytestmark = pytest.mark.mlflow


@pytest.fixture(params=["mlflow", "wandb"])
def sweep(request: pytest.FixtureRequest, tmp_path: Path, empty_store: Path) -> Sweep:
    sweep = Sweep(tmp_path / "sweeps of mine", name=request.param).half_done()
    if request.param == "wandb":
        sweep.server = request.getfixturevalue("server")
    shutil.copy(empty_store, sweep.root / "mlflow.db")
    return sweep


def test_runs_have_their_params_standings_and_points(sweep: Sweep) -> None:
    sweep.sync()
    shown = sweep.shown()
    run = shown[sweep.runs[0].run_id]
    assert len(shown) == 2, "a run that waits has no beginning yet"
    assert (run.name, shown["parent"].name) == ("n=2 seed=0", "all of it's a sweep")
    own = {"n": "2", "B": "4", "T": "40", "seed": "0", "learning_rate": "0.001"}
    own |= {"model": "tiny", "task": "sort", "beta": "0.5"}
    assert {key: run.params[key] for key in own} == own
    assert shown["parent"].params["budgets"] == "2e+10,4e+10"
    assert (run.tags["status"], run.tags["budgets_reached"]) == ("running", "2e+10")
    assert run.points["heldout/avg_at_k"] == [(step, step / 160) for step in (0, 10, 20)]
    assert run.points["compute/flops"] == [(step, step * 1e9) for step in (0, 10, 20)]
    assert [step for step, _ in run.points["train/loss"]] == list(range(2, 21, 2))
    assert run.values["heldout/avg_at_k"] == 20 / 160
    assert shown["parent"].values["sweep/best_run_reward"] == 20 / 160


@pytest.mark.parametrize("repeated", [False, True])
def test_no_point_is_there_twice(
    sweep: Sweep, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sweep.tracker()
    first.sync()
    first.sync()
    if repeated:
        start(sweep.runs[0], attempt=2, parent=1, resumed=10)
        write_steps(sweep.runs[0], range(11, 41), attempt=2, shift=500)
    else:
        write_steps(sweep.runs[0], range(21, 41))
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
        assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
        assert sweep.steps("train/loss") == TRAIN_STEPS
        assert sweep.shown()[sweep.runs[0].run_id].tags["status"] == "done"


def test_a_driver_that_was_killed_leaves_nothing_that_the_next_one_does_not_mend(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    kill = f"; import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    # Its W&B is its own, and not this process's.
    own = {key: value for key, value in os.environ.items() if key != "WANDB_SERVICE"}
    command = sync_command(sweep.root, kill, name=sweep.config.name)
    assert subprocess.run(command, env=own, check=False).returncode == -signal.SIGKILL
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    sweep.sync()
    if sweep.server is not None:
        send(sweep)
    assert len(sweep.shown()) == 2
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert sweep.steps("train/loss") == TRAIN_STEPS


def test_what_came_of_a_sweep_follows_the_next_analysis(sweep: Sweep) -> None:
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    run = sweep.runs[0].run_id
    figure, report = sweep.root / "reward.png", sweep.root / "report.html"
    Image.new("RGB", (300, 200)).save(figure)
    report.write_text("<p>the report")
    for when, verdict, reward in ((START, "growing", 0.25), (START + 9, "saturated", 0.2)):
        overview = Overview(
            note=f"**{verdict}.**",
            tags={None: {"verdict": verdict}, run: {"on_frontier": "true"}},
            metrics={run: {"reward_1_2e10": reward}},
            unix_time=when,
            files=((figure, "figures"), (report, "")),
        )
        tracker = sweep.tracker(overview)
        tracker.sync()
        tracker.finish("FINISHED")
        shown = sweep.shown()
        assert shown["parent"].tags["verdict"] == verdict
        assert shown[run].tags["on_frontier"] == "true"
        assert shown[run].values["reward_1_2e10"] == reward
        assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
