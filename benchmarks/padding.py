"""What an update costs before and after micro-batches are cut: `python benchmarks/padding.py`.

One generation of the built-in model in which answers of 1 and 4 lengths alternate, updated with
TRL's own micro-batches (all as wide as the longest rollout, in random order) and with isosweep's
(ordered by length, cut). Both train the same weights in one process and take turns; medians and
quartiles are of the updates. Positions are what the micro-batches hold.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import statistics
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from frame import Goal, benchmark
from trl import GRPOTrainer

from isosweep.config.compose import config_of
from isosweep.models.weights import weights
from isosweep.plan.spec import run_spec
from isosweep.training.assembly import make_trainer
from isosweep.training.policy import load_policy
from isosweep.training.trainer import SweepTrainer

GOALS = {
    "time": Goal("seconds of an update, cut over TRL's own", "at most", 0.85),
    "positions": Goal("positions of an update, cut over TRL's own", "at most", 0.7),
}
QUICK = {"updates": 6}
N, B = 8, 16


OPTIONS = {
    "--updates": (40, "updates of each side"),
    "--micro-batch": 16,
    "--short": (64, "tokens of a short answer"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Time both sides in turn, and print what they take."""
    with tempfile.TemporaryDirectory() as directory:
        trainer = _trainer(Path(directory), options)
        sides = {"TRL's own": GRPOTrainer, "cut": SweepTrainer}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        positions: dict[str, int] = {}
        for _ in range(options.updates + 1):
            for name, kind in sides.items():
                taken, positions[name] = _update(trainer, kind)
                seconds[name].append(taken)
    print(f"{'':12}  seconds (quartiles)        positions")
    for name, each in seconds.items():
        # The first update of each warms up.
        low, middle, high = statistics.quantiles(each[1:], n=4)
        print(f"{name:12}  {middle:.4f} ({low:.4f} to {high:.4f})  {positions[name]:10,}")
    ratios = [cut / own for own, cut in zip(*seconds.values(), strict=True)][1:]
    share = positions["cut"] / positions["TRL's own"]
    return {"time": statistics.median(ratios), "positions": share}


def _trainer(directory: Path, options: Namespace) -> Any:
    """A trainer whose every generation is one of answers mixed 1:4."""
    config = config_of([f"task.max_completion_tokens={4 * options.short}"])
    spec = run_spec(
        config, num_generations=N, problems_per_batch=B, seed=0, micro_batch=options.micro_batch
    )
    torch.manual_seed(0)
    trainer: Any = make_trainer(spec, load_policy(spec, weights(spec.model)), directory)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    lengths = [options.short * (4 if i % 2 else 1) for i in range(N * B)]
    answers = [torch.randint(3, 13, (length,)).tolist() for length in lengths]
    trainer.sample = lambda prompts, n: (answers, None)
    batch = trainer.make_batch(N * B)
    batch["advantages"] = torch.linspace(-1, 1, N * B)
    trainer.make_batch = lambda count: dict(batch)
    return trainer


def _update(trainer: Any, kind: Any) -> tuple[float, int]:
    """Seconds, and positions of micro-batches, of one update by the methods of `kind`."""
    trainer._buffered_inputs, trainer._step = None, 0
    began = time.perf_counter()
    for _ in range(trainer.args.gradient_accumulation_steps):
        inputs = kind._prepare_inputs(trainer, [{}] * (N * B))
        kind.compute_loss(trainer, trainer.model, inputs).backward()
        trainer._step += 1
    seconds = time.perf_counter() - began
    trainer.model.zero_grad()
    parts = trainer._buffered_inputs
    return seconds, sum(p["prompt_ids"].numel() + p["completion_ids"].numel() for p in parts)


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
