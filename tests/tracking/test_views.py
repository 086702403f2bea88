"""What every view of a sweep shows, in MLflow and in W&B: the same, of the same files."""

import os
import signal
import subprocess

import pytest
from PIL import Image

from isosweep.tracking.tracker import Overview
from tests.tracking.sweeps import (
    EVAL_STEPS,
    EVALUATION_S,
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


def test_runs_have_their_params_standings_and_points(sweep: Sweep) -> None:
    sweep.sync()
    assert len(sweep.all_shown()) == 2, "a run that waits has no beginning yet"
    run, whole = sweep.shown(), sweep.shown(None)
    assert (run.name, whole.name) == ("n=2 seed=0", "all of it's a sweep")
    own = {"n": "2", "B": "4", "T": "40", "seed": "0", "learning_rate": "0.001"}
    own |= {"model": "tiny", "task": "sort", "beta": "0.5"}
    assert run.params.items() >= own.items()
    assert whole.params["budgets"] == "2e+10,4e+10"
    assert (run.tags["status"], run.tags["budgets_reached"]) == ("running", "2e+10")
    rewards = [(step, START + step, step / 160) for step in (0, 10, 20)]
    assert run.points["heldout/avg_at_k"] == rewards
    assert run.steps("train/loss") == list(range(2, 21, 2))
    # Of two problems, both never right at first, one is right in 2 of 8 samples at the end.
    last = {
        "heldout/avg_at_k": 2 / 16,
        "heldout/best_at_k": 0.5,
        "heldout/worst_at_k": 0.0,
        "heldout/pass_at_2": (1 - (6 * 5) / (8 * 7)) / 2,
        "heldout/pass_at_4": (1 - (6 * 5 * 4 * 3) / (8 * 7 * 6 * 5)) / 2,
        "compute/flops": 2e10,
        "compute/rollouts": 160,
        "compute/tokens": 64 * 20,
        "compute/device_seconds": 2.0,
        "compute/evaluation_seconds": EVALUATION_S,
        "compute/log10_flops": 10.30103,
        "train/loss": 1 / 21,
        "train/reward": 0.1,
        # Of three evaluations, and 0.1 s of training a step.
        "eval_min": 3 * EVALUATION_S / 60,
        "train_min": 2 / 60,
    }
    shown = {name: run.values[name] for name in run.values if "/" in name or "_min" in name}
    assert shown == pytest.approx(last, rel=1e-3)
    assert (whole.values["sweep/best_run_reward"], whole.values["sweep/done_runs"]) == (0.125, 0)


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
        run = sweep.shown()
        assert run.steps("heldout/avg_at_k") == list(EVAL_STEPS)
        assert run.steps("train/loss") == TRAIN_STEPS
        assert run.tags["status"] == "done"


def test_a_driver_that_was_killed_leaves_nothing_that_the_next_one_does_not_mend(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    kill = f"; import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    # Its W&B is its own, and not this process's.
    own = {key: value for key, value in os.environ.items() if key != "WANDB_SERVICE"}
    command = sync_command(sweep.root, kill, name=sweep.config.name)
    assert subprocess.run(command, env=own, check=False).returncode == -signal.SIGKILL
    sweep.done()
    sweep.sync()
    if sweep.server is not None:
        send(sweep)
    assert len(sweep.all_shown()) == 2
    assert sweep.shown().steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert sweep.shown().steps("train/loss") == TRAIN_STEPS


def test_what_came_of_a_sweep_follows_the_next_analysis(sweep: Sweep) -> None:
    sweep.done()
    run_id = sweep.runs[0].run_id
    figure, report = sweep.root / "reward.png", sweep.root / "report.html"
    Image.new("RGB", (300, 200)).save(figure)
    report.write_text("<p>the report")
    for when, verdict, reward in ((START, "growing", 0.25), (START + 9, "saturated", 0.2)):
        overview = Overview(
            note=f"**{verdict}.**",
            tags={None: {"verdict": verdict}, run_id: {"on_frontier": "true"}},
            metrics={run_id: {"reward_1_2e10": reward}},
            unix_time=when,
            files=((figure, "figures"), (report, "")),
        )
        tracker = sweep.tracker(overview)
        tracker.sync()
        tracker.finish("FINISHED")
        run = sweep.shown()
        assert sweep.shown(None).tags["verdict"] == verdict
        assert (run.tags["on_frontier"], run.values["reward_1_2e10"]) == ("true", reward)
        assert run.steps("heldout/avg_at_k") == list(EVAL_STEPS)
