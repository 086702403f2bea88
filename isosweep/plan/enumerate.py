"""Every candidate of a plan at once: enumerated, costed and checked as arrays."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.config.axes import Variant
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.costs.engine import context_tokens
from isosweep.costs.fit import MemoryFit, fit_memory, quickest
from isosweep.costs.flops import Passes, rollout_flops
from isosweep.costs.padding import learner_flops
from isosweep.costs.steps import Floats, Ints, steps_for
from isosweep.costs.timing import StepSeconds, step_seconds
from isosweep.plan.candidates import Candidates
from isosweep.plan.evaluation import evaluation_flops, evaluation_seconds, evaluations
from isosweep.plan.rules import RULES
from isosweep.plan.spec import passes_of, reached


def enumerate_candidates(variants: Sequence[Variant]) -> tuple[Candidates, ...]:
    """All candidates of every variant of `grid.axes`, and the rules that each breaks."""
    return tuple(map(_candidates, variants))


def _candidates(variant: Variant) -> Candidates:
    config = variant.config
    grid, hardware, task = config.grid, config.hardware, config.task
    updates, devices = config.recipe.updates_per_generation, config.run_hardware.devices_per_run
    n = np.array(sorted(grid.num_generations), dtype=np.int64)
    B = np.array(sorted(grid.problems_per_batch), dtype=np.int64)
    budgets, completions = np.array(config.budgets), n[:, None] * B[None, :]
    listed = np.ones(completions.shape, dtype=bool)
    if grid.completions_per_step is not None:
        listed = np.isin(completions, grid.completions_per_step)
    prompt, answer = task.planned_prompt_tokens, task.planned_completion_tokens
    passes = passes_of(config, n[:, None].astype(float))
    memory, learner, phases = _quickest(config, passes, completions)
    # Micro-batches, which are part of a run's identity, are chosen by assumed times alone.
    phases = phases.times(hardware.factor("generation"), hardware.factor("training"))
    # Costs of one generation are shared evenly by the updates made with it.
    rollout = rollout_flops(config.model.architecture, prompt, answer, passes)
    flops = completions * np.asarray(rollout.total) / updates
    sampling = completions * np.asarray(rollout.prefill + rollout.decode) / updates
    seconds = phases.total / updates
    rollouts = completions * passes.draws / updates
    cost = {
        "flops": flops,
        "tokens": rollouts * (prompt + answer),
        "rollouts": rollouts,
        "device_hours": seconds * config.devices_taken / 3600,
    }[config.unit]
    steps = steps_for(budgets, cost[..., None], updates)
    # Evaluated are step 0, each milestone, and each point of the log-spaced grid of compute. Runs
    # of a model share the first, but each may be the first, or wait for it.
    decades = np.log10(steps * flops[..., None]) - np.maximum(np.log10(flops[..., None]), 0)
    between = np.floor(config.evaluation.records_per_decade * decades).astype(np.int64)
    records = 1 + np.arange(1, len(budgets) + 1) + between
    evaluating = evaluation_seconds(config, memory.concurrency) + np.zeros(completions.shape)
    running = steps * seconds[..., None] + evaluating[..., None] * records
    table = Candidates(
        variant=variant,
        num_generations=n,
        problems_per_batch=B,
        budgets=budgets,
        listed=listed,
        cost=cost,
        flops=flops,
        hardware_flops=sampling + learner * devices / updates,
        seconds=seconds,
        phases=phases,
        memory=memory,
        steps=steps,
        records=records,
        evaluation_flops=evaluation_flops(config),
        evaluation_seconds=evaluating,
        run_seconds=running + hardware.startup,
        broken={},
    )
    shape, masks = steps.shape, {name: rule.broken(table) for name, rule in RULES.items()}
    return replace(table, broken={k: np.broadcast_to(mask, shape) for k, mask in masks.items()})


def _quickest(
    config: SweepConfig, passes: Passes, completions: Ints
) -> tuple[MemoryFit, Floats, StepSeconds]:
    """How n x B fit their devices in the least time, FLOPs that a device computes in scoring and
    training, and the seconds of one generation and its updates: (N, M) each."""
    recipe, at = config.recipe, reached(config)
    context = max(
        context_tokens(on.task.planned_prompt_tokens, on.task.completion_limit)
        for on in (config, *evaluations(config))
    )
    local = np.maximum(completions // config.run_hardware.devices_per_run, 1)

    def timed(fit: MemoryFit) -> tuple[MemoryFit, Floats, StepSeconds]:
        learner = learner_flops(
            config.model.architecture,
            config.hardware,
            passes,
            config.task.lengths,
            local=local,
            micro_batch=fit.micro_batch,
            mini_batches=recipe.mini_batches,
        )
        seconds = step_seconds(config, passes, completions, fit, learner, at)
        return fit, learner.sum(axis=0), seconds

    largest = fit_memory(config, recipe, completions, context)
    # Where passes cost nothing beside their FLOPs, time would tell large micro-batches from small
    # ones by padding alone.
    if recipe.micro_batch is not None or at.pass_overhead_s == 0:
        return timed(largest)
    # Halves of the largest allowed, and the largest divisor that fits.
    sizes = [2**power for power in range(recipe.max_micro_batch.bit_length())]
    fits = [
        fit_memory(config, replaced(recipe, micro_batch=s), completions, context) for s in sizes
    ]
    fits.append(largest)
    return timed(quickest(fits, [timed(fit)[2].total for fit in fits]))
