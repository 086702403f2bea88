"""What a rollout of a language model costs, prompts read once: benchmarks/language_model.py.

SmolLM2-135M-Instruct on one core (`make setup-weights` has its weights) takes steps of the laptop's
sweep, each prompt read for every rollout and read once, in turn. Seconds are of the processor, in
sampling, in the update and in all, for a rollout; an evaluation's are for an answer. The gradient's
norm says that both train alike.
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
from frame import Goal, benchmark, table

from isosweep.config.hydra import config_of
from isosweep.models.weights import weights
from isosweep.plan.spec import run_spec
from isosweep.training.evaluate import Evaluator
from isosweep.training.grpo import load_policy, make_stream, make_trainer
from isosweep.training.ledger import Ledger

GOALS = {
    "rollout": Goal("seconds of a rollout, prompts read once over for each", "at most", 0.6),
    "gradient": Goal("largest distance of the gradients' norms, relative", "at most", 1e-3),
}
QUICK = {"num_generations": [16], "steps": 2}
OPTIONS = {
    "--num-generations": [4, 16, 32],
    "--steps": (4, "steps of each side, after one that warms up"),
    "settings": {"nargs": "*", "help": "further settings, such as task.num_eval_problems=8"},
}
SIDES = {"for each": "false", "once": "true"}
B = 2


def measure(options: Namespace) -> dict[str, float]:
    """Take steps of both sides in turn, and print what they cost."""
    row = table("n", "prompts read", "sampling, s", "update, s", "rollout, s", "answer, s")
    ratios, distances = [], []
    for n in options.num_generations:
        with tempfile.TemporaryDirectory() as directory:
            sides = {
                name: _trainer(Path(directory), n, [*_asked(once), *options.settings])
                for name, once in SIDES.items()
            }
            taken: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for _ in range(options.steps + 1):
                for name, trainer in sides.items():
                    taken[name].append(_step(trainer))
            for name, steps in taken.items():
                each = {k: statistics.median(s[k] for s in steps[1:]) / (n * B) for k in steps[0]}
                cost = (each["sampling"], each["update"], each["all"], _answer(sides[name]))
                row(n, name, *(f"{seconds:.3f}" for seconds in cost))
            pairs = [(one["all"], each["all"]) for each, one in zip(*taken.values(), strict=True)]
            ratios += [once / each for once, each in pairs[1:]]
            norms = [(one["norm"], each["norm"]) for each, one in zip(*taken.values(), strict=True)]
            distances += [abs(once - each) / max(each, 1e-6) for once, each in norms]
    return {"rollout": statistics.median(ratios), "gradient": max(distances)}


def _asked(once: str) -> list[str]:
    shared = (f"generation.prefix_sharing={once}", f"hardware.shared_prompts={once}")
    whole = ("+experiment=laptop/smollm2", "recipe.lora_rank=null", "recipe.learning_rate=2e-5")
    return [*whole, *shared]


def _trainer(directory: Path, n: int, settings: list[str]) -> Any:
    config = config_of(settings)
    spec = run_spec(
        config,
        num_generations=n,
        problems_per_batch=B,
        seed=0,
        micro_batch=min(config.recipe.max_micro_batch, n * B),
    )
    torch.manual_seed(0)
    model, tokenizer = load_policy(spec, weights(spec.model))
    trainer = make_trainer(spec, model, tokenizer, Ledger(spec), make_stream(spec), directory)
    trainer.model.train()
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    return trainer


def _step(trainer: Any) -> dict[str, float]:
    """Processor seconds of one generation and its update, and the norm of the gradient."""
    began = time.process_time()
    trainer._buffered_inputs, trainer._step = None, 0
    torch.manual_seed(trainer.state.global_step)
    first = trainer._prepare_inputs([{}] * (trainer._spec.num_generations * B))
    sampled = time.process_time()
    for step in range(trainer.args.gradient_accumulation_steps):
        inputs = first if step == 0 else trainer._prepare_inputs([{}])
        trainer.compute_loss(trainer.model, inputs).backward()
        trainer._step += 1
    norm = torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
    trainer.optimizer.step()
    trainer.model.zero_grad()
    trainer.state.global_step += 1
    ended = time.process_time()
    parts = {"sampling": sampled - began, "update": ended - sampled, "all": ended - began}
    return {**parts, "norm": float(norm)}


def _answer(trainer: Any) -> float:
    """Processor seconds of an answer of an evaluation."""
    spec = trainer._spec
    evaluator = Evaluator(spec, trainer.processing_class)
    began = time.process_time()
    evaluator(trainer.model)
    answers = spec.task.num_eval_problems * spec.evaluation.samples_per_problem
    return (time.process_time() - began) / answers


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
