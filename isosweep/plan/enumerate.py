"""Every candidate of a plan at once: enumerated, costed and checked as arrays."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import MemoryFit, fit_memory
from isosweep.costs.flops import Passes, prefill_flops, rollout_flops
from isosweep.costs.timing import STARTUP_S, StepSeconds, generation_seconds, step_seconds
from isosweep.plan.candidates import Candidates, Floats, Ints
from isosweep.plan.rules import broken_bits
from isosweep.plan.spec import passes_of


def enumerate_candidates(variants: Sequence[Variant]) -> tuple[Candidates, ...]:
    """All candidates of every variant of `grid.axes`, and the rules that each breaks."""
    return tuple(_checked(_costed(variant)) for variant in variants)


def _checked(candidates: Candidates) -> Candidates:
    return replace(candidates, broken=broken_bits(candidates))


def _costed(variant: Variant) -> Candidates:
    """One variant's candidates with what they cost; what they break is not judged yet."""
    config = variant.config
    grid, updates = config.grid, config.recipe.num_iterations
    n = np.array(sorted(grid.num_generations), dtype=np.int64)
    B = np.array(sorted(grid.problems_per_batch), dtype=np.int64)
    budgets = np.array(config.budgets)
    completions = n[:, None] * B[None, :]
    listed = np.ones(completions.shape, dtype=bool)
    if grid.completions_per_step is not None:
        listed = np.isin(completions, grid.completions_per_step)
    passes = passes_of(
        config.model.architecture, config.recipe, config.generation, n[:, None].astype(float)
    )
    memory = _memory(config, completions)
    phases = _phases(config, passes, completions, memory)
    # Costs of one generation are shared evenly by the updates made with it.
    flops = _flops(config, passes, completions) / updates
    seconds = phases.total / updates
    cost = _cost(config, passes, completions, flops, seconds)
    # Whole generations: a run is read off, and ends, after all updates of one.
    steps = updates * np.maximum(1, np.floor(budgets / (cost[..., None] * updates) + 0.5)).astype(
        np.int64
    )
    run_seconds = steps * seconds[..., None] + _evaluation_seconds(config, flops, steps)
    return Candidates(
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
        run_seconds=run_seconds + STARTUP_S[config.hardware.device],
        broken=np.zeros(steps.shape, dtype=np.int64),
    )


def _memory(config: SweepConfig, completions: Ints) -> MemoryFit:
    return fit_memory(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        prompt=config.task.planned_prompt_tokens,
        completion=float(config.task.completion_limit),
        completions=completions,
    )


def _phases(
    config: SweepConfig, passes: Passes, completions: Ints, memory: MemoryFit
) -> StepSeconds:
    """Seconds of one generation and its updates, by phase: (N, M) each."""
    return step_seconds(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        passes,
        prompt=config.task.planned_prompt_tokens,
        completion=config.task.planned_completion_tokens,
        longest=float(config.task.completion_limit),
        completions=completions,
        concurrency=memory.concurrency,
    )


def _flops(config: SweepConfig, passes: Passes, completions: Ints) -> Floats:
    """FLOPs of one generation and its updates: (N, M)."""
    prompt, completion = config.task.planned_prompt_tokens, config.task.planned_completion_tokens
    per_rollout = rollout_flops(config.model.architecture, prompt, completion, passes).total
    flops: Floats = completions * np.broadcast_to(per_rollout, completions.shape)
    return flops


def _cost(
    config: SweepConfig, passes: Passes, completions: Ints, flops: Floats, seconds: Floats
) -> Floats:
    """What an update costs in the budget's unit: (N, M)."""
    task, updates = config.task, config.recipe.num_iterations
    cost: Floats
    match config.unit:
        case "flops":
            cost = flops
        case "tokens":
            tokens = task.planned_prompt_tokens + task.planned_completion_tokens
            cost = completions * passes.draws * tokens / updates
        case "rollouts":
            cost = completions * passes.draws / updates
        case "device_hours":
            cost = seconds * config.hardware.devices_per_run / 3600
        case _ as unit:
            assert_never(unit)
    return cost


def _evaluation_seconds(config: SweepConfig, flops: Floats, steps: Ints) -> Floats:
    """Seconds of all held-out evaluations up to `steps`: (N, M, K).

    One at step 0, at each milestone, and at each point of the log-spaced grid of compute. Runs of
    a model share the one at step 0, but each may be the first, or wait for it.
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
