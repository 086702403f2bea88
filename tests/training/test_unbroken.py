"""Killed, resumed and extended, a run has the records and metrics of one that was left alone.

Recipes by what they have of state, layouts of processes and samplers are crossed in pairs. A run in
parts is killed at its first checkpoint, asked to stop at its next, taken to its first budget, and
extended to both. Beside a generator it changes between sampling in turn and at once, on nodes
between one and two.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from isosweep.config.base import replaced
from isosweep.files import write_json
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import Attempt, Status
from isosweep.store.paths import RunPaths, complete_checkpoints
from tests.runs import log_lines, reproducible, wait_for
from tests.training.builders import (
    attempted,
    by_a_worker,
    metrics,
    prepared,
    spec_of,
    submitted,
    trained,
)
from tests.training.engines import VLLM, require_vllm
from tests.training.sharded import TWO, let_in, let_torchao_in

BUDGETS = (1e9, 2e9)
RECIPES = {
    "plain": (),
    "draws": (
        *("recipe.zero_variance=resample", "recipe.max_draws=2", "recipe.retire_at=1"),
        "recipe.retire_window=6",
    ),
    "adapters": ("recipe.lora_rank=4", "recipe.beta=0.04"),
    "waiting": ("recipe.mini_batches=2", "recipe.rollout_lag=1"),
    "interrupted": ("recipe.interruption='9'", "recipe.interruption_tokens=2"),
    "own loss": ("recipe.loss_type=tests.training.own_losses:dapo", "recipe.num_iterations=2"),
    "8-bit states": ("hardware.optimizer=adamw_torch_8bit",),
    "mixture": (
        *(
            "task=sort_mix",
            "task.mixture.parts.short.success_at=0.5",
            "task.num_eval_problems=null",
        ),
        *(f"task.mixture.parts.{part}.num_eval_problems=4" for part in ("long", "short")),
        "task.mixture.shares={long:0.6,short:0.4}",
    ),
}
LAG = "recipe.rollout_lag=3"


def vllm(*cell: str, long: bool = True) -> object:
    return pytest.param(*cell, "vllm", marks=[*VLLM, pytest.mark.long] if long else VLLM)


def rare(*cell: str) -> object:
    return pytest.param(*cell, "transformers", marks=pytest.mark.long)


CELLS = [
    ("draws", "one", "transformers"),
    pytest.param("adapters", "beside", "transformers", marks=pytest.mark.slow),
    pytest.param("waiting", "fsdp", "transformers", marks=pytest.mark.slow),
    *(rare("mixture", "one"), rare("draws", "beside"), rare("interrupted", "beside")),
    *(rare("own loss", "ddp"), rare("8-bit states", "ddp"), rare("8-bit states", "fsdp")),
    *(rare("waiting", "ddp"), rare("draws", "nodes"), rare("waiting", "nodes")),
    *(vllm("plain", "one", long=False), vllm("adapters", "beside", long=False)),
    *(vllm("waiting", "fsdp"), vllm("plain", "nodes"), vllm("draws", "ddp")),
]


def spec_in(recipe: str, layout: str, generation: str) -> RunSpec:
    """The run; a config of a CPU refuses to share a model, so that its spec is changed."""
    devices = () if layout in ("one", "beside") else TWO
    more = (LAG,) if layout == "beside" else ()
    small: tuple[str, ...] = ("task.num_eval_problems=8",)
    if recipe != "mixture":
        small += ("task.num_train_problems=64",)
    spec = spec_of(*devices, *small, *RECIPES[recipe], *more, f"generation={generation}", micro=4)
    return replaced(spec, sharding="fsdp") if layout == "fsdp" else spec


# Longer than any of these runs takes on a machine that others use.
_LONG_S = 900.0


def tasks_of(attempt: Attempt, count: int) -> list[subprocess.Popen[bytes]]:
    """The tasks of the attempt's job, one a node, as srun starts them."""
    words = [sys.executable, "-P", "-m", "isosweep.training", str(attempt.path)]
    counts = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
    job = {
        # Another port than other tests have.
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "no-such-node-[1-2]",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": "0",
        **dict.fromkeys(counts, str(count)),
    }
    return [
        subprocess.Popen(words, env={**os.environ, **job, "SLURM_PROCID": str(number)})
        for number in range(count)
    ]


def worked(
    run: RunPaths, nodes: int, milestones: Sequence[float], *, killed: bool = False
) -> list[int]:
    """How the tasks of a job of so many nodes end, which takes the run to the milestones, in
    FLOPs, or is killed at its first checkpoint."""
    attempt = submitted(run, milestones, "slurm")
    tasks = tasks_of(attempt, nodes)
    try:
        if killed:
            own = run.attempt_checkpoints(attempt.number)
            wait_for(partial(complete_checkpoints, own), _LONG_S)
            for task in tasks:
                task.send_signal(signal.SIGKILL)
        return [task.wait(_LONG_S) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
        # Nobody else says so where rank 0 is killed.
        attempt.end(Status.FAILED, "killed")


def overlapped(run: RunPaths, spec: RunSpec, overlap: bool) -> None:
    """Have the next attempt sample beside the trainer, or in turn."""
    other = replaced(spec, generation=replaced(spec.generation, overlap=overlap))
    write_json(run.spec, {"spec": other.to_json()})


def in_parts(spec: RunSpec, layout: str, root: Path) -> RunPaths:
    run = prepared(spec, root)
    if layout == "nodes":
        worked(run, 2, BUDGETS, killed=True)
        assert worked(run, 1, BUDGETS[:1]) == [0]
        assert worked(run, 2, BUDGETS) == [0, 0]
        return run
    sent = (signal.SIGKILL, signal.SIGUSR2)
    for number, each in enumerate(sent):
        if layout == "beside":
            overlapped(run, spec, overlap=number == 0)
        by_a_worker(run, BUDGETS, each)
    for milestones in (BUDGETS[:1], BUDGETS):
        if layout == "beside":
            overlapped(run, spec, overlap=True)
        attempted(run, milestones)
    return run


@pytest.mark.train
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("recipe", "layout", "generation"), CELLS)
def test_a_run_in_parts_is_the_run_that_was_left_alone(
    recipe: str, layout: str, generation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if generation == "vllm":
        require_vllm()
    let_in(monkeypatch)
    if recipe == "8-bit states":
        let_torchao_in(monkeypatch)
    # A worker imports the loss from here.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ["PYTHONPATH"], str(Path.cwd())]))
    spec = spec_in(recipe, layout, generation)
    straight = trained(spec, tmp_path / "straight", BUDGETS)
    parts = in_parts(spec, layout, tmp_path / "parts")
    assert parts.run_id == straight.run_id
    assert reproducible(parts) == reproducible(straight)
    assert metrics(parts) == metrics(straight)
    assert len(metrics(straight)) > 3
    if layout == "fsdp":
        (last,) = parts.checkpoints.glob("*/checkpoint-*")
        names = {path.name for path in last.iterdir()}
        # Its own part by each process, and the weights no second time.
        assert {"pytorch_model_fsdp_0", "optimizer_0"} <= names
        assert not [name for name in names if name.startswith(("model", "adapter"))]
    starts = [x["resumed_step"] for x in log_lines(parts.records) if x["kind"] == "attempt"]
    assert starts == sorted(starts)
    assert 0 == starts[0] < starts[1] <= starts[-1]
