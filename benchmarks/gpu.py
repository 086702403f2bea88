"""Predicted and possible against measured: memory, seconds, bytes and tokens a second of GRPO.

    make bench-gpu                                        # Qwen2.5-0.5B and 1.5B, ten minutes
    python benchmarks/gpu.py --devices 2                  # the same, shared by FSDP
    python benchmarks/gpu.py --model tiny                 # the same code on a CPU, where DDP shares

The models have the published architectures and random weights, and may not end an answer before
its limit: every completion is as long as allowed, and lengths are known. Nothing is downloaded.
Every model is trained by the worker's trainer once with each generation backend that is installed
(`vllm-sleep`: vLLM that gives its memory back while the policy is updated), in a process of its
own. `roofline` is what the device could do: the larger of FLOPs at its peak and bytes at its
bandwidth, nothing lost, nothing computed twice (`isosweep.costs.timing.sampling`;
training is bound by FLOPs). Tokens generated are completion tokens; tokens trained on are prompt
and completion tokens. Prefill is sampling one token of every rollout, with an empty prefix cache;
decoding is what full completions take beyond that. Memory is what the device says is in use, what
was in use before left out: context and fragmentation count, for which a plan leaves
`hardware.memory_reserve`. Of several devices the first is measured; each samples all rollouts for
the figures of sampling, which are of one device.
"""

import importlib.util
import itertools
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from frame import Goal, UsageError, benchmark

from isosweep.compute import Compute
from isosweep.config.compose import config_of
from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import ModelConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import rollout_flops
from isosweep.costs.memory import checkpoint_bytes
from isosweep.costs.timing import sampling
from isosweep.devices import visible_devices
from isosweep.models.builtin import builtin_model
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import Study, resolve
from isosweep.store.checkpoints import complete

GOALS = {
    # What a plan lets through must fit the device.
    "memory": Goal("peak memory, measured over planned, the largest", "at most", 1.0),
    "rest": Goal("share of a step in neither generation nor training, the largest", "at most", 0.3),
    "checkpoint": Goal("bytes of a checkpoint, off those planned, the largest", "at most", 0.02),
}
QUICK_GPU = {"model": ["qwen-0.5b"], "steps": 3}
QUICK_CPU = {"model": ["tiny"], "completion": 8, "backend": ["transformers"]}
N, B = 8, 8
# What each is planned with.
BACKENDS = {
    "transformers": ("generation=transformers",),
    "vllm": ("generation=vllm",),
    "vllm-sleep": ("generation=vllm", "generation.sleep=true"),
}
# Bytes that a checkpoint may have beside weights and states: tokenizer, settings, random states.
SMALL_FILES = 1e6
# Seconds between two looks at the device's memory.
POLL_S = 0.01


@dataclass
class Measured:
    """Seconds of each step after the first, in all and by phase; and once each the rest.

    `generation`: sampling, with the weights' way to the sampler. `training`: forward and backward.
    What is left of a step is log-probabilities, rewards and the update. `prefill`, `sampling`:
    seconds of sampling one token, and all, of every rollout. `allocated`, `used`: bytes at the
    peak, by torch and by the device, None on a CPU. `tokens`: mean of a completion. `still`:
    seconds that training stands still for a checkpoint, and `written` until it is on the disk.
    """

    step: list[float] = field(default_factory=list)
    generation: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    prefill: float = 0.0
    sampling: float = 0.0
    allocated: float | None = None
    used: float | None = None
    tokens: float = 0.0
    still: float = 0.0
    written: float = 0.0
    checkpoint: float = 0.0


def cell_config(
    model: str, hardware: str, backend: str, completion: int, prompt: int, devices: int
) -> SweepConfig:
    """One (n, B) of `model` with completions of exactly `completion` tokens."""
    shared = ["hardware.sharding=fsdp"] if HAS_GPU else ["hardware.interconnect_bandwidth=1e10"]
    overrides = [
        f"model={model}",
        f"hardware={hardware}",
        *BACKENDS[backend],
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
        *([f"hardware.devices_per_run={devices}", *shared] if devices > 1 else []),
    ]
    return config_of(overrides)


def save_random_model(model: ModelConfig, directory: Path) -> None:
    """The architecture with random weights, in float32, and a tokenizer; made once.

    In a process of its own: what torch keeps of it would count as in use before.
    """
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    if directory.exists():
        return
    arch = model.architecture
    torch.manual_seed(0)
    settings = Qwen2Config(
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
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        network = Qwen2ForCausalLM(settings)
    network.save_pretrained(directory)
    AutoTokenizer.from_pretrained(builtin_model()).save_pretrained(directory)


def train(spec: RunSpec, steps: int, weights: Path, checkpoints: Path) -> Measured:
    """Train for `steps` steps and one before them, which warms up; then sample and save."""
    import torch
    from transformers import TrainerCallback

    from isosweep.training.assembly import make_trainer
    from isosweep.training.policy import load_policy

    measured = Measured()

    class Clock(TrainerCallback):  # type: ignore[misc]
        began, before = 0.0, Compute()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            ended = now()
            if state.global_step > 1:
                measured.step.append(ended - self.began)
                spent, before = trainer.ledger.spent, self.before
                # The books are of all devices.
                generation = spent.generation_seconds - before.generation_seconds
                training = spent.training_seconds - before.training_seconds
                measured.generation.append(generation / spec.devices)
                measured.training.append(training / spec.devices)
            self.began, self.before = ended, trainer.ledger.spent

    with device_memory(measured):
        policy = load_policy(spec, str(weights))
        trainer = make_trainer(spec, policy, checkpoints)
        if trainer.use_vllm != (spec.generation.name == "vllm"):
            sys.exit(f"the trainer does not generate through {spec.generation.name}")
        trainer.args.max_steps = steps + 1
        trainer.args.save_strategy = "no"
        completions_of(trainer, spec.task.completion_limit)
        trainer.add_callback(Clock())
        trainer.train()
        spent = trainer.ledger.spent
        measured.tokens = spent.completion_tokens / spent.rollouts
        sample(trainer, spec, measured)
        save(trainer, measured)
    if torch.cuda.is_available():
        measured.allocated = float(torch.cuda.max_memory_allocated())
    return measured


def now() -> float:
    """Seconds, once the device has done all that it was given."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


@contextmanager
def device_memory(measured: Measured) -> Iterator[None]:
    """Puts into `measured.used` the most that the device has in use within the block, and had not
    before."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    free_before, _ = torch.cuda.mem_get_info()
    least, ended = [free_before], threading.Event()

    def look() -> None:
        while not ended.wait(POLL_S):
            least[0] = min(least[0], torch.cuda.mem_get_info()[0])

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        measured.used = float(free_before - least[0])


def completions_of(trainer: Any, tokens: int) -> None:
    """Have every completion of the trainer be `tokens` long at least."""
    if trainer.use_vllm:
        trainer.vllm_generation.generation_kwargs = {"min_tokens": tokens}
    else:
        # None ends: each is as long as it may be.
        trainer.generation_config.eos_token_id = []


def sample(trainer: Any, spec: RunSpec, measured: Measured) -> None:
    """Time one token, and all, of every rollout of a step, with prompts that were not read yet.

    Once before, so that the weights' way to the sampler and first kernels do not count.
    """
    import torch

    prompts = trainer.prompts[:B]
    rows = [prompt for prompt in prompts for _ in range(N)]
    for limit in (1, spec.task.completion_limit):
        completions_of(trainer, limit)
        seconds = []
        for _ in range(3):
            if trainer.use_vllm:
                trainer.vllm_generation.llm.reset_prefix_cache()
            began = now()
            with torch.no_grad(), trainer.limited(limit):
                trainer.sample(rows, N)
            seconds.append(now() - began)
        if limit == 1:
            measured.prefill = min(seconds[1:])
        else:
            measured.sampling = min(seconds[1:])


def save(trainer: Any, measured: Measured) -> None:
    """Write a checkpoint as a worker does: the trainer's files, and all of it."""
    from isosweep.training.checkpoints import checkpoint_directory

    began = now()
    trainer._save_checkpoint(trainer.model, None)
    measured.still = now() - began
    directory = checkpoint_directory(trainer.args, trainer.state)
    if trainer.process == 0:
        complete(directory)
    measured.written = now() - began
    files = (path for path in directory.rglob("*") if path.is_file())
    measured.checkpoint = float(sum(path.stat().st_size for path in files))


def roofline(spec: RunSpec, hardware: HardwareConfig) -> tuple[float, float, float]:
    """Least seconds that the device needs to read one step's prompts, to decode, and to train."""
    rollouts = spec.completions_per_step
    arch, lengths = spec.model.architecture, spec.task.lengths
    flops = rollout_flops(arch, lengths.prompt, lengths.completion, spec.passes)
    sampled = sampling(
        arch,
        hardware,
        spec.generation,
        lengths,
        rollouts=np.array([float(rollouts)]),
        concurrency=np.array([rollouts]),
        prefill_flops=flops.prefill,
    )
    reading = rollouts * float(flops.prefill) / hardware.peak_flops
    training = rollouts * float(flops.training) / hardware.peak_flops / hardware.devices_per_run
    return reading, float(sampled.device[0]) - reading, training


def plan_of(model: str, backend: str, options: Namespace) -> Study:
    """The plan of `model` with `backend`: one run."""
    asked = options.hardware, backend, options.completion, options.prompt, options.devices
    return resolve(cell_config(model, *asked))


def report(
    place: dict[str, str],
    model: str,
    backend: str,
    options: Namespace,
    weights: Path,
    figures: Any,
) -> None:
    """Train `model` with `backend`, and print what was predicted, possible and measured.

    Puts the figures that have goals into the queue `figures`. `place`: what torch's launcher tells
    a process of those that share a run; the first reports.
    """
    os.environ |= place
    import torch

    study = plan_of(model, backend, options)
    (table,), (spec,) = study.candidates, study.specs.values()
    config = table.config
    measured = train(spec, options.steps, weights, weights.parent / f"{model}-{backend}")
    if place.get("RANK", "0") != "0":
        return
    assert measured.tokens == options.completion, f"{measured.tokens} tokens a completion"
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    settings = f"n={N}, B={B}, micro-batch {spec.micro_batch}, {options.steps} steps after a first"
    print(f"{model}, {backend}, {where}, torch {torch.__version__}; {settings}:")
    mean = float(np.mean(measured.step))
    compare("seconds per step", "predicted", float(table.seconds[0, 0]), mean, 3)
    generating, training = float(np.mean(measured.generation)), float(np.mean(measured.training))
    rest = mean - generating - training
    print(f"  seconds of it: generation {generating:.3f}, training {training:.3f}, rest {rest:.3f}")
    reading, decoding, learning = roofline(spec, config.hardware)
    decoded = max(measured.sampling - measured.prefill, 1e-9)
    read, made = N * B * options.prompt, N * B * (options.completion - 1)
    trained = N * B * (options.completion + options.prompt)
    compare("prefill tokens/s", "roofline", read / reading, read / measured.prefill, 0)
    compare("decoded tokens/s", "roofline", made / decoding, made / decoded, 0)
    compare("trained tokens/s", "roofline", trained / learning, trained / training, 0)
    size = checkpoint_bytes(spec.model.architecture, spec.recipe, config.hardware).total
    compare("checkpoint, MB", "planned", size / 1e6, measured.checkpoint / 1e6, 1)
    speed = measured.checkpoint / measured.written / 1e9
    print(
        f"  seconds of a checkpoint: training stands still for {measured.still:.3f}, "
        f"on the disk after {measured.written:.3f} ({speed:.2f} GB/s)"
    )
    off = max(0.0, abs(measured.checkpoint - size) - SMALL_FILES) / size
    reached = {"rest": rest / mean, "checkpoint": off}
    if measured.used is not None and measured.allocated is not None:
        planned = float(table.memory.peak[0, 0])
        room = planned + config.hardware.memory_reserve * config.hardware.memory_gb * 1e9
        compare("torch's memory, GB", "planned", planned / 1e9, measured.allocated / 1e9, 2)
        compare("device memory, GB", "planned", room / 1e9, measured.used / 1e9, 2)
        reached["memory"] = measured.used / room
    figures.put(reached)


def compare(what: str, against: str, other: float, measured: float, digits: int) -> None:
    """One line: what was expected, what was measured, and measured / expected."""
    share = f"ratio {measured / other:.3f}"
    numbers = f"{against} {other:12,.{digits}f}  measured {measured:12,.{digits}f}"
    print(f"  {what:<19} {numbers}  {share}")


def hardware_of(device: str) -> str:
    """The settings of conf/hardware of a device, by the name that torch gives it."""
    name = device.lower().replace(" ", "")
    known = [path.stem for path in (Path(__file__).parent.parent / "conf/hardware").glob("*.yaml")]
    found = [each for each in known if each in name]
    if len(found) != 1:
        raise UsageError(f"no settings of {device}: add --hardware, one of {', '.join(known)}")
    return found[0]


def places(devices: int) -> list[dict[str, str]]:
    """What torch's launcher tells each process of a run on so many devices; nothing to one."""
    if devices == 1:
        return [{}]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(devices)}
    shared["LOCAL_WORLD_SIZE"] = shared["WORLD_SIZE"]
    return [{**shared, "RANK": str(at), "LOCAL_RANK": str(at)} for at in range(devices)]


HAS_GPU, HAS_VLLM = bool(visible_devices().names), importlib.util.find_spec("vllm") is not None
INSTALLED = ["transformers", *["vllm"] * HAS_VLLM, *["vllm-sleep"] * (HAS_VLLM and HAS_GPU)]
OPTIONS = {
    "--model": ["qwen-0.5b", "qwen-1.5b"],
    "--backend": {"nargs": "+", "default": INSTALLED, "choices": BACKENDS},
    "--hardware": {"help": "of conf/hardware; by default the device found"},
    "--prompt": 32,
    "--completion": 256,
    "--steps": 5,
    "--devices": 1,
}


def measure(options: Namespace) -> dict[str, float]:
    """Train every model through every backend; the worst figures."""
    import torch

    if options.hardware is None:
        options.hardware = hardware_of(torch.cuda.get_device_name() if HAS_GPU else "CPU")
    context = multiprocessing.get_context("spawn")
    figures, failed = dict[str, float](), []
    with tempfile.TemporaryDirectory() as directory:
        for model, backend in itertools.product(options.model, options.backend):
            # Processes of its own: an engine keeps its share of the device until it ends.
            queue = context.SimpleQueue()
            weights = Path(directory) / model
            (spec,) = plan_of(model, backend, options).specs.values()
            saving = context.Process(target=save_random_model, args=(spec.model, weights))
            saving.start()
            saving.join()
            work = (model, backend, options, weights, queue)
            ranks = [
                context.Process(target=report, args=(place, *work))
                for place in places(options.devices)
            ]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
            if any(rank.exitcode for rank in ranks):
                failed.append(f"{model} with {backend}")
            reached = {} if queue.empty() else queue.get()
            for name, figure in reached.items():
                figures[name] = max(figure, figures.get(name, figure))
    if failed:
        sys.exit(f"not trained: {', '.join(failed)}; figures of the others: {figures}")
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK_GPU if HAS_GPU else QUICK_CPU, OPTIONS)
