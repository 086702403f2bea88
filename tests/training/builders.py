"""Runs and trainers on the built-in model, as small as tests need them, and what ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from isosweep.compute import BudgetUnit
from isosweep.config.study import CheckpointConfig, HealthConfig
from isosweep.files import write_json
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.attempts import Attempt, LauncherName, Status, create_attempt, highest, newest
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_metrics
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun
from tests.conftest import make_config
from tests.runs import wait_for

_SMALL = ("task.num_eval_problems=32", "evaluation.samples_per_problem=2")


def spec_of(*overrides: str, n: int = 4, B: int = 4, micro: int | None = None) -> RunSpec:
    """A run with n and B, whose micro-batches have `micro` rollouts, or all."""
    config = make_config(*_SMALL, *overrides)
    return run_spec(
        config, num_generations=n, problems_per_batch=B, seed=0, micro_batch=micro or n * B
    )


def trainer_of(spec: RunSpec, directory: Path, model: Any = None) -> Any:
    """The run's trainer, of `model` or of its own policy."""
    import torch

    from isosweep.training.assembly import make_trainer
    from isosweep.training.policy import load_policy

    torch.set_num_threads(1)
    torch.manual_seed(spec.seed)
    policy, tokenizer = load_policy(spec, weights(spec.model))
    policy = policy if model is None else model
    trainer = make_trainer(spec, (policy, tokenizer), directory)
    trainer.model.train()
    return trainer


def train(
    trainer: Any, steps: int, on_step: Callable[[int], Any] = lambda step: None
) -> list[dict[str, float]]:
    """Train for so many steps, of which no checkpoint is due; the metrics of each."""
    from transformers import TrainerCallback

    from isosweep.training.loop import named_metrics

    metrics: list[dict[str, float]] = []

    class Until(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            on_step(0)
            self.began = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trainer.ledger.took("device", time.perf_counter() - self.began)
            on_step(state.global_step)
            control.should_training_stop = state.global_step == steps
            self.began = time.perf_counter()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            if values := named_metrics(logs):
                metrics.append(values)

        def on_save(self, *_: Any, **__: Any) -> None:
            raise AssertionError("nothing was to be saved")

    trainer.add_callback(Until())
    trainer.train()
    return metrics


def parameters(trainer: Any) -> list[Any]:
    """A copy of them."""
    return [each.detach().clone() for each in trainer.model.parameters()]


def listen(trainer: Any) -> list[dict[str, list[Any]]]:
    """What TRL hands to reward functions, a dict a generation."""
    heard: list[dict[str, list[Any]]] = []
    right = trainer.reward_funcs[0]

    def correctness(**given: Any) -> list[float]:
        scores: list[float] = right(**given)
        ids = [list(tokens) for tokens in given["completion_ids"]]
        heard.append({"problem": given["problem"], "ids": ids, "scores": scores})
        return scores

    trainer.reward_funcs[0] = correctness
    return heard


def prepared(spec: RunSpec, root: Path) -> RunPaths:
    """The run's directory, in `root`, with its spec."""
    run = RunPaths(root / "runs" / spec.run_id)
    run.root.mkdir(parents=True)
    write_json(run.spec, {"spec": spec.to_json()})
    return run


def trained(
    spec: RunSpec, root: Path, *attempts: Sequence[float], unit: BudgetUnit = "flops"
) -> RunPaths:
    """The run taken to the milestones, in `unit`, of each of the `attempts`."""
    run = prepared(spec, root)
    for milestones in attempts:
        attempted(run, milestones, unit)
    return run


def attempted(
    run: RunPaths,
    milestones: Sequence[float],
    unit: BudgetUnit = "flops",
    saving: CheckpointConfig | None = None,
) -> None:
    """Take the run to the milestones, in `unit`."""
    health = make_config().health
    job = TrainRun(str(run.root), tuple(milestones), unit, health, saving or CheckpointConfig())
    assert train_unsubmitted(job) is Status.FINISHED


OFTEN = CheckpointConfig(share=1.0, min_interval_s=0.0)


def submitted(
    run: RunPaths,
    milestones: Sequence[float],
    launcher: LauncherName = "local",
    **changed: object,
) -> Attempt:
    """An attempt at the run, to so many FLOPs; the one before is over."""
    job = TrainRun("", tuple(milestones), "flops", HealthConfig(), OFTEN).to_json() | changed
    made = create_attempt(run, launcher, "sweeps/s", job, f"b{highest(run)}")
    assert made is not None
    return made


def by_a_worker(run: RunPaths, milestones: Sequence[float], sent: signal.Signals) -> None:
    """Have a worker take the run to the milestones, in FLOPs, until it is `sent` a signal at its
    first checkpoint."""
    # A worker that is killed ends nothing: who follows the sweep does.
    before = newest(run)
    if before is not None and before.live:
        before.end(Status.LOST, "killed")
    own = run.attempt_checkpoints(submitted(run, milestones).number)
    worker = subprocess.Popen([sys.executable, "-m", "isosweep.training", str(run.root)])
    wait_for(partial(complete_checkpoints, own), 300)
    worker.send_signal(sent)
    assert worker.wait(timeout=300) == (-signal.SIGKILL if sent is signal.SIGKILL else 0)


def metrics(run: RunPaths) -> list[dict[str, Any]]:
    """What each step logged, but for times."""
    lines = read_metrics(run.metrics, run.records)
    timed = ("time", "attempt")
    return [{k: v for k, v in x.items() if k not in timed and "seconds" not in k} for x in lines]


def state_of(run: RunPaths) -> Attempt:
    """The state of a run that has one."""
    state = newest(run)
    assert state is not None
    return state


def in_a_process(work: Callable[[], object]) -> int:
    """Start `work` in a fork of this process, which has torch imported; its number."""
    import isosweep.training.assembly  # noqa: F401

    process = os.fork()
    if process:
        return process
    status = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, sys.stderr.fileno())
        work()
        status = 0
    finally:
        os._exit(status)


def exit_status(process: int) -> int:
    """Of a process of `in_a_process`, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
