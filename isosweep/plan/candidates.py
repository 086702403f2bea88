"""Every candidate of a plan at once: enumerated, costed and checked as arrays.

Shape suffixes: N values of n, M values of B, K budgets. Seeds only repeat candidates, so nothing
here depends on them. `isosweep.plan` turns these arrays into cells, runs and rejections.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isosweep.config.axes import Variant
from isosweep.config.generation import GenerationConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import prefill_flops, rollout_flops
from isosweep.costs.memory import MemoryFit, fit_memory, state_bytes
from isosweep.costs.timing import STARTUP_S, StepSeconds, generation_seconds, step_seconds
from isosweep.difficulty.variants import variants
from isosweep.plan.spec import passes_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The settings that can reject a candidate, in the order in which they are told.
RULES = (
    "grid.max_completions_per_step",
    "task.num_train_problems",
    "recipe.micro_batch",
    "hardware.memory_gb",
    "grid.min_steps",
    "grid.max_steps",
    "grid.tolerance",
    "grid.max_epochs",
    "launcher.slurm.timeout_min",
)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Candidates of one variant. `listed`: (N, M) pairs that the grid asks for.

    `cost`, `flops`, `seconds`: (N, M) per optimiser update, cost in the budget's unit; `steps`
    and `run_seconds`: (N, M, K), the latter from start to budget, evaluation included; `broken`:
    (N, M, K), bit r set where RULES[r] is broken. `memory` has arrays (N, M).
    """

    variant: Variant
    num_generations: Ints
    problems_per_batch: Ints
    budgets: Floats
    listed: NDArray[np.bool_]
    cost: Floats
    flops: Floats
    seconds: Floats
    phases: StepSeconds
    memory: MemoryFit
    steps: Ints
    run_seconds: Floats
    broken: Ints

    @property
    def completions(self) -> Ints:
        """n x B: (N, M)."""
        return self.num_generations[:, None] * self.problems_per_batch[None, :]

    @cached_property
    def spent(self) -> Floats:
        """Planned compute at the nearest whole number of steps, in the budget's unit: (N, M, K)."""
        spent: Floats = self.steps * self.cost[..., None]
        return spent

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        feasible: NDArray[np.bool_] = self.listed[..., None] & (self.broken == 0)
        return feasible

    @cached_property
    def longest(self) -> Ints:
        """Index of the largest feasible budget of each pair, -1 where there is none: (N, M).

        Cells that differ only in budget are one run, which ends at this one.
        """
        last = len(self.budgets) - 1 - np.argmax(self.feasible[..., ::-1], axis=-1)
        return np.where(self.feasible.any(axis=-1), last, -1)


def enumerate_candidates(config: SweepConfig) -> tuple[Candidates, ...]:
    """All candidates of every variant of `config.grid.axes`."""
    return tuple(_candidates(variant) for variant in variants(config))


def _candidates(variant: Variant) -> Candidates:
    config = variant.config
    grid, task, recipe = config.grid, config.task, config.recipe
    n = np.array(sorted(grid.num_generations), dtype=np.int64)
    B = np.array(sorted(grid.problems_per_batch), dtype=np.int64)
    budgets = np.array(config.budgets)
    completions = n[:, None] * B[None, :]
    listed = np.ones(completions.shape, dtype=bool)
    if grid.completions_per_step is not None:
        listed = np.isin(completions, grid.completions_per_step)

    arch = config.model.architecture
    prompt, completion = task.planned_prompt_tokens, task.planned_completion_tokens
    passes = passes_of(arch, recipe, config.generation, n[:, None].astype(float))
    memory = fit_memory(
        arch,
        recipe,
        config.hardware,
        config.generation,
        prompt=prompt,
        completion=float(task.completion_limit),
        completions=completions,
    )
    phases = step_seconds(
        arch,
        recipe,
        config.hardware,
        config.generation,
        passes,
        prompt=prompt,
        completion=completion,
        longest=float(task.completion_limit),
        completions=completions,
        concurrency=memory.concurrency,
    )
    # Costs of one generation are shared evenly by the updates made with it.
    updates = recipe.num_iterations
    per_rollout = rollout_flops(arch, prompt, completion, passes).total
    flops = completions * np.broadcast_to(per_rollout, completions.shape) / updates
    seconds = phases.total / updates
    match config.unit:
        case "flops":
            cost = flops
        case "tokens":
            cost = completions * passes.draws * (prompt + completion) / updates
        case "rollouts":
            cost = completions * passes.draws / updates
        case "device_hours":
            cost = seconds * config.hardware.devices_per_run / 3600

    # Whole generations: a run is read off, and ends, after all updates of one.
    steps = updates * np.maximum(1, np.floor(budgets / (cost[..., None] * updates) + 0.5)).astype(
        np.int64
    )
    run_seconds = steps * seconds[..., None] + _evaluation_seconds(config, flops, steps)
    run_seconds = run_seconds + STARTUP_S[config.hardware.device]
    candidates = Candidates(
        variant=variant,
        num_generations=n,
        problems_per_batch=B,
        budgets=budgets,
        listed=listed,
        cost=cost,
        flops=flops,
        seconds=seconds,
        phases=phases,
        memory=memory,
        steps=steps,
        run_seconds=run_seconds,
        broken=np.zeros(steps.shape, dtype=np.int64),
    )
    _check(config, candidates)
    return candidates


def _evaluation_seconds(config: SweepConfig, flops: Floats, steps: Ints) -> Floats:
    """Seconds of all held-out evaluations up to `steps`: (N, M, K).

    One at step 0, at each milestone, and at each point of the log-spaced grid of compute.
    """
    settings, task = config.evaluation, config.task
    arch = config.model.architecture
    rollouts = float(task.num_eval_problems * settings.samples_per_problem)
    prompt = task.planned_prompt_tokens
    seconds, positions = generation_seconds(
        arch,
        config.hardware,
        prompt=prompt,
        completion=task.planned_completion_tokens,
        decoded=float(task.completion_limit),
        rollouts=np.array([rollouts]),
        concurrency=np.array([settings.batch_size]),
        prefill_flops=float(prefill_flops(arch, prompt)),
    )
    once = float(seconds[0] + positions[0] * config.hardware.token_overhead_s)
    decades = np.log10(steps * flops[..., None]) - np.maximum(np.log10(flops[..., None]), 0)
    milestones = np.arange(1, steps.shape[-1] + 1)
    seconds_until: Floats = once * (
        1 + milestones + np.floor(settings.records_per_decade * decades)
    )
    return seconds_until


def _check(config: SweepConfig, found: Candidates) -> None:
    """Set the bits of every rule that a candidate breaks."""
    completions, grid = found.completions, config.grid
    problems = config.task.num_train_problems
    B = found.problems_per_batch[None, :, None]
    steps, budgets = found.steps, found.budgets
    share = completions // config.hardware.devices_per_run
    whole = share * config.hardware.devices_per_run == completions
    if config.recipe.micro_batch is not None:
        whole &= share % config.recipe.micro_batch == 0
    slurm = config.launcher.slurm
    limit_s = slurm.timeout_min * 60 * (1 + slurm.max_requeues)
    rules = {
        "grid.max_completions_per_step": (completions > grid.max_completions_per_step)[..., None],
        "task.num_train_problems": problems < B,
        "recipe.micro_batch": ~whole[..., None],
        "hardware.memory_gb": (whole & (found.memory.micro_batch == 0))[..., None],
        "grid.min_steps": steps < grid.min_steps,
        "grid.max_steps": steps > grid.max_steps,
        "grid.tolerance": np.abs(found.spent - budgets) > grid.tolerance * budgets,
        "grid.max_epochs": steps * B * config.recipe.planned_draws
        > grid.max_epochs * problems * config.recipe.num_iterations,
        "launcher.slurm.timeout_min": (found.run_seconds > limit_s)
        & (config.launcher.name == "slurm"),
    }
    for bit, rule in enumerate(RULES):
        found.broken[...] |= np.where(rules[rule], 1 << bit, 0)


def reason(found: Candidates, rule: str, i: int, j: int, k: int) -> str:
    """Why candidate (i, j, k) breaks `rule`, with the numbers."""
    config = found.variant.config
    grid, hardware = config.grid, config.hardware
    problems = config.task.num_train_problems
    n, B = int(found.num_generations[i]), int(found.problems_per_batch[j])
    steps, budget = int(found.steps[i, j, k]), float(found.budgets[k])
    product = f"n x B = {n} x {B} = {n * B}"
    match rule:
        case "grid.max_completions_per_step":
            return f"{product} exceeds {grid.max_completions_per_step}"
        case "task.num_train_problems":
            return f"B = {B} exceeds the {problems} training problems"
        case "recipe.micro_batch":
            devices = hardware.devices_per_run
            if n * B % devices:
                return f"{product} is not a multiple of hardware.devices_per_run={devices}"
            size = config.recipe.micro_batch
            across = f" x {devices} devices" if devices > 1 else ""
            return f"{product} is not a multiple of {size}{across}"
        case "hardware.memory_gb":
            needed = float(found.memory.needed[i, j]) / 1e9
            room = hardware.memory_gb * (1 - hardware.memory_reserve)
            held = state_bytes(config.model.architecture, config.recipe, hardware).total / 1e9
            return (
                f"{product} needs {needed:,.1f} GB a device ({held:,.1f} for weights and "
                f"optimiser, the rest for generation and activations), {needed - room:,.1f} GB "
                f"more than {1 - hardware.memory_reserve:.0%} of {hardware.memory_gb:g} GB"
            )
        case "grid.min_steps":
            return f"T = {steps} is below {grid.min_steps}"
        case "grid.max_steps":
            return f"T = {steps} exceeds {grid.max_steps}"
        case "grid.tolerance":
            spent = float(found.spent[i, j, k])
            return (
                f"T = {steps} spends {spent:.4g}, {abs(spent / budget - 1):.1%} off {budget:.4g}; "
                f"allowed {grid.tolerance:.1%}"
            )
        case "grid.max_epochs":
            generations = steps // config.recipe.num_iterations
            return (
                f"{generations} batches of B = {B} pass {generations * B / problems:.1f} times "
                f"over {problems} problems; allowed {grid.max_epochs:g}"
            )
        case _:
            slurm = config.launcher.slurm
            hours = float(found.run_seconds[i, j, k]) / 3600
            jobs = 1 + slurm.max_requeues
            return (
                f"it takes about {hours:,.1f} h, and {jobs} jobs of {slurm.timeout_min} min give "
                f"{jobs * slurm.timeout_min / 60:,.1f} h"
            )


def mends(found: Candidates, rule: str, i: int, j: int, k: int) -> str:
    """The nearest setting with which candidate (i, j, k) keeps `rule`."""
    config = found.variant.config
    n, B = int(found.num_generations[i]), int(found.problems_per_batch[j])
    steps = int(found.steps[i, j, k])
    match rule:
        case "grid.max_completions_per_step":
            return f"{rule}={n * B}"
        case "task.num_train_problems":
            return f"{rule}={B}"
        case "recipe.micro_batch":
            devices = config.hardware.devices_per_run
            if n * B % devices:
                return f"hardware.devices_per_run={math.gcd(n * B, devices)}"
            return f"{rule}={math.gcd(n * B // devices, config.recipe.micro_batch or 1)}"
        case "hardware.memory_gb":
            return _memory_that_suffices(config, n * B)
        case "grid.min_steps" | "grid.max_steps":
            return f"{budget_that_works(found, i, j)}, or {rule}={steps}"
        case "grid.tolerance":
            off = abs(float(found.spent[i, j, k]) / float(found.budgets[k]) - 1)
            enough = math.ceil(off * 1e3) / 1e3
            return f"{budget_that_works(found, i, j)}, or {rule}={enough:g}"
        case "grid.max_epochs":
            epochs = steps // config.recipe.num_iterations * B / config.task.num_train_problems
            return f"{budget_that_works(found, i, j)}, or {rule}={math.ceil(epochs)}"
        case _:
            slurm = config.launcher.slurm
            jobs = math.ceil(float(found.run_seconds[i, j, k]) / 60 / slurm.timeout_min)
            return f"launcher.slurm.max_requeues={jobs - 1}"


# Rules about how many steps a budget buys: another budget keeps them all.
BUDGET_RULES = ("grid.min_steps", "grid.max_steps", "grid.tolerance", "grid.max_epochs")


def budget_that_works(found: Candidates, i: int, j: int) -> str:
    """The nearest budget with which pair (i, j) keeps all BUDGET_RULES.

    Where the rules leave no number of steps, with the limits that have to be raised for it.
    """
    config = found.variant.config
    grid, updates = config.grid, config.recipe.num_iterations
    per_epoch = config.task.num_train_problems / int(found.problems_per_batch[j])
    # From so many steps on, rounding to whole generations stays within the tolerance.
    least = max(math.ceil(0.5 * updates / grid.tolerance), grid.min_steps)
    most = min(grid.max_steps, math.floor(grid.max_epochs * per_epoch) * updates)
    steps = max(min(int(found.steps[i, j, 0]), most), least)
    settings = [f"budget={steps * float(found.cost[i, j]):.4g}"]
    if steps > grid.max_steps:
        settings.append(f"grid.max_steps={steps}")
    epochs = steps / updates / per_epoch
    if epochs > grid.max_epochs:
        settings.append(f"grid.max_epochs={math.ceil(epochs * 100) / 100:g}")
    return " ".join(settings)


def _memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    hardware, task = config.hardware, config.task
    tried: list[tuple[str, SweepConfig]] = []
    lean = config
    if not hardware.gradient_checkpointing:
        lean = replace(config, hardware=replace(hardware, gradient_checkpointing=True))
        tried.append(("hardware.gradient_checkpointing=true", lean))
    if config.generation.name != "vllm":
        queued = replace(config, generation=GenerationConfig(name="vllm"))
        tried.append(("generation=vllm", queued))
    if hardware.interconnect_bandwidth is not None:
        for devices in (2, 4, 8, 16, 32, 64):
            spread = replace(lean.hardware, devices_per_run=devices, sharding="fsdp")
            text = f"hardware.devices_per_run={devices} hardware.sharding=fsdp"
            tried.append((text, replace(lean, hardware=spread)))
    adapters = replace(lean.recipe, lora_rank=32)
    tried.append(("recipe.lora_rank=32", replace(lean, recipe=adapters)))
    for text, changed in tried:
        fit = fit_memory(
            changed.model.architecture,
            changed.recipe,
            changed.hardware,
            changed.generation,
            prompt=task.planned_prompt_tokens,
            completion=float(task.completion_limit),
            completions=np.array([completions]),
        )
        if fit.micro_batch[0] > 0:
            return text
    return "a smaller model, or hardware with more memory"
