"""Predicted and possible against measured: memory, seconds and tokens a second of GRPO steps.

    make bench-gpu                                        # Qwen2.5-0.5B and 1.5B on this GPU
    python benchmarks/gpu.py --model tiny --hardware cpu  # the same code on a CPU

The models have the published architectures and random weights, and may not end an answer before
its limit: every completion is as long as allowed, and lengths are known. Nothing is downloaded.
Every model is trained by the worker's trainer once with each generation backend that is
installed, in a process of its own. `roofline` is what the device could do: the larger of FLOPs at
its peak and bytes at its bandwidth, nothing lost, nothing computed twice
(`isosweep.costs.timing.generation_seconds`; training is bound by FLOPs). Tokens generated are
completion tokens; tokens trained on are prompt and completion tokens.
"""

import argparse
import importlib.util
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from goals import Goal, judge, parse
from hydra import compose, initialize_config_dir

from isosweep.config.hardware import HardwareConfig
from isosweep.config.hydra import config_directory, from_hydra
from isosweep.config.model import ModelConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import rollout_flops
from isosweep.costs.timing import generation_seconds
from isosweep.devices import visible_devices
from isosweep.models.make_builtin import character_tokenizer
from isosweep.plan.spec import RunSpec, passes_of
from isosweep.plan.study import resolve

GOALS = {
    # What a plan lets through must fit the device.
    "memory": Goal("peak memory, measured over predicted, the largest", "at most", 1.0),
    "rest": Goal("share of a step in neither generation nor training, the largest", "at most", 0.3),
}
QUICK_GPU = {"model": ["qwen-0.5b"], "steps": 3}
QUICK_CPU = {"model": ["tiny"], "hardware": "cpu", "completion": 8, "backend": ["transformers"]}
N, B = 8, 8
BACKENDS = ("transformers", "vllm")


@dataclass
class Measured:
    """Seconds of each step after the first, in all and by phase.

    `generation`: sampling, with the weights' way to the sampler. `training`: forward and backward.
    What is left of a step is log-probabilities, rewards and the update. `peak`: bytes, None on a
    CPU. `tokens`: mean of a completion.
    """

    step: list[float] = field(default_factory=list)
    generation: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    peak: float | None = None
    tokens: float = 0.0


def config_of(model: str, hardware: str, backend: str, completion: int, prompt: int) -> SweepConfig:
    """One (n, B) of `model` with completions of exactly `completion` tokens."""
    overrides = [
        f"model={model}",
        f"hardware={hardware}",
        f"generation={backend}",
        "task=sort",
        f"task.sort.levels=[{prompt - 2}]",
        f"task.prompt_tokens={prompt}",
        f"task.completion_tokens={completion}",
        f"task.max_completion_tokens={completion}",
        "grid=tiny",
        f"grid.num_generations=[{N}]",
        f"grid.problems_per_batch=[{B}]",
        "grid.seeds=[0]",
        "grid.min_steps=1",
        "budget_unit=rollouts",
        f"budget={100 * N * B}",
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return from_hydra(compose("config", overrides=overrides))


def save_random_model(model: ModelConfig, directory: Path) -> None:
    """The architecture with random weights, in float32, and a tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    arch = model.architecture
    torch.manual_seed(0)
    network = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=arch.vocab_size,
            hidden_size=arch.hidden_size,
            intermediate_size=arch.intermediate_size,
            num_hidden_layers=arch.num_layers,
            num_attention_heads=arch.num_heads,
            num_key_value_heads=arch.num_kv_heads,
            tie_word_embeddings=arch.tie_word_embeddings,
            eos_token_id=None,
            bos_token_id=None,
            pad_token_id=0,
        )
    )
    network.save_pretrained(directory)
    character_tokenizer().save_pretrained(directory)


def measure(spec: RunSpec, steps: int) -> Measured:
    """Train for `steps` steps and one before them, which warms up."""
    import torch
    from transformers import TrainerCallback

    from isosweep.training.grpo import load_policy, make_stream, make_trainer
    from isosweep.training.ledger import Ledger

    cuda = torch.cuda.is_available()

    def now() -> float:
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    measured = Measured()

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            ended = now()
            if state.global_step > 1:
                measured.step.append(ended - self.began)
                spent, before = ledger.spent, self.before
                measured.generation.append(spent.generation_seconds - before.generation_seconds)
                measured.training.append(spent.training_seconds - before.training_seconds)
            self.began, self.before = ended, ledger.spent

    ledger = Ledger(spec)
    with tempfile.TemporaryDirectory() as directory:
        weights = Path(directory) / "model"
        save_random_model(spec.model, weights)
        policy = load_policy(spec, str(weights))
        trainer = make_trainer(spec, *policy, ledger, make_stream(spec), Path(directory))
        if trainer.use_vllm != (spec.generation.name == "vllm"):
            sys.exit(f"the trainer does not generate through {spec.generation.name}")
        trainer.args.max_steps = steps + 1
        trainer.args.save_strategy = "no"
        if trainer.use_vllm:
            trainer.vllm_generation.generation_kwargs = {"min_tokens": spec.task.completion_limit}
        else:
            trainer.generation_config.min_new_tokens = spec.task.completion_limit
        trainer.add_callback(Clock())
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    measured.peak = float(torch.cuda.max_memory_allocated()) if cuda else None
    measured.tokens = ledger.spent.completion_tokens / ledger.spent.rollouts
    return measured


def roofline(spec: RunSpec, hardware: HardwareConfig) -> tuple[float, float]:
    """Least seconds that the device needs to generate, and to train on, one step's rollouts."""
    task, rollouts = spec.task, spec.completions_per_step
    prompt, completion = task.planned_prompt_tokens, task.planned_completion_tokens
    arch = spec.model.architecture
    flops = rollout_flops(
        arch, prompt, completion, passes_of(arch, spec.recipe, spec.generation, float(N))
    )
    generating, _ = generation_seconds(
        arch,
        replace(hardware, generation_utilization=1.0),
        prompt=prompt,
        completion=completion,
        decoded=completion,
        rollouts=np.array([float(rollouts)]),
        concurrency=np.array([rollouts]),
        prefill_flops=flops.prefill,
    )
    return float(generating[0]), rollouts * float(flops.training) / hardware.peak_flops


def report(model: str, backend: str, options: argparse.Namespace, figures: Any) -> None:
    """Train `model` with `backend`, and print what was predicted, possible and measured.

    Puts the figures that have goals into the queue `figures`.
    """
    import torch

    config = config_of(model, options.hardware, backend, options.completion, options.prompt)
    study = resolve(config)
    (table,), (spec,) = study.candidates, study.specs.values()
    measured = measure(spec, options.steps)
    assert measured.tokens == options.completion, f"{measured.tokens} tokens a completion"
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    settings = f"n={N}, B={B}, micro-batch {spec.micro_batch}, {options.steps} steps after a first"
    print(f"{model}, {backend}, {where}, torch {torch.__version__}; {settings}:")
    mean, predicted = float(np.mean(measured.step)), float(table.seconds[0, 0])
    compare("seconds per step", "predicted", predicted, mean, 3)
    generated = N * B * options.completion
    trained = N * B * (options.completion + options.prompt)
    generating, training = float(np.mean(measured.generation)), float(np.mean(measured.training))
    least = roofline(spec, config.hardware)
    compare("generated tokens/s", "roofline", generated / least[0], generated / generating, 0)
    compare("trained tokens/s", "roofline", trained / least[1], trained / training, 0)
    rest = mean - generating - training
    print(f"  seconds of it: generation {generating:.3f}, training {training:.3f}, rest {rest:.3f}")
    reached = {"rest": rest / mean}
    if measured.peak is not None:
        planned = float(table.memory.peak[0, 0])
        compare("peak memory, GB", "predicted", planned / 1e9, measured.peak / 1e9, 2)
        reached["memory"] = measured.peak / planned
    figures.put(reached)


def compare(what: str, against: str, other: float, measured: float, digits: int) -> None:
    """One line: what was expected, what was measured, and measured / expected."""
    share = f"ratio {measured / other:.3f}"
    numbers = f"{against} {other:12,.{digits}f}  measured {measured:12,.{digits}f}"
    print(f"  {what:<19} {numbers}  {share}")


def main() -> None:
    """Train every model through every backend, and judge the worst."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    installed = [name for name in BACKENDS if importlib.util.find_spec(name)]
    parser.add_argument("--model", nargs="+", default=["qwen-0.5b", "qwen-1.5b"])
    parser.add_argument("--backend", nargs="+", default=installed, choices=BACKENDS)
    parser.add_argument("--hardware", default="h200")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--completion", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    options = parse(parser, GOALS, QUICK_GPU if visible_devices().names else QUICK_CPU)
    context = multiprocessing.get_context("spawn")
    figures, failed = dict[str, float](), 0
    for model in options.model:
        for backend in options.backend:
            # A process of its own: an engine keeps its share of the device until it ends.
            queue = context.SimpleQueue()
            process = context.Process(target=report, args=(model, backend, options, queue))
            process.start()
            process.join()
            failed += process.exitcode != 0
            reached = {} if queue.empty() else queue.get()
            for name, figure in reached.items():
                figures[name] = max(figure, figures.get(name, figure))
    judge(GOALS, figures, options)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
