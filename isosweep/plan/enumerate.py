"""Every candidate of a plan at once: enumerated, costed and checked as arrays."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from isosweep.config.axes import Variant
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.costs.efficiency import Efficiency
from isosweep.costs.fit import MemoryFit, Sampled, fit_memory, quickest
from isosweep.costs.flops import Passes, rollout_flops
from isosweep.costs.padding import learner_flops
from isosweep.costs.steps import Floats, Ints, steps_for
from isosweep.costs.timing import StepSeconds, step_seconds
from isosweep.plan.candidates import Candidates
from isosweep.plan.evaluation import evaluation_flops, evaluation_seconds, evaluations
from isosweep.plan.rules import broken_bits
from isosweep.plan.spec import evaluation_batch, passes_of, reached


def enumerate_candidates(variants: Sequence[Variant]) -> tuple[Candidates, ...]:
    """All candidates of every variant of `grid.axes`, and the rules that each breaks."""
    return tuple(_checked(_costed(variant)) for variant in variants)


def _checked(candidates: Candidates) -> Candidates:
    return replace(candidates, broken=broken_bits(candidates))


def _costed(variant: Variant) -> Candidates:
    """One variant's candidates with what they cost; what they break is not judged yet."""
    config, table = variant.config, _of_updates(variant)
    updates = config.recipe.updates_per_generation
    table = replace(table, steps=steps_for(table.budgets, table.cost[..., None], updates))
    records = _records(table)
    evaluating = table.evaluation_seconds[..., None] * records
    run_seconds = table.total(table.seconds) + evaluating + config.hardware.startup
    return replace(table, records=records, run_seconds=run_seconds)


def _of_updates(variant: Variant) -> Candidates:
    """One variant's candidates with what an update costs in each."""
    config = variant.config
    grid, updates = config.grid, config.recipe.updates_per_generation
    n = np.array(sorted(grid.num_generations), dtype=np.int64)
    B = np.array(sorted(grid.problems_per_batch), dtype=np.int64)
    budgets = np.array(config.budgets)
    completions = n[:, None] * B[None, :]
    listed = np.ones(completions.shape, dtype=bool)
    if grid.completions_per_step is not None:
        listed = np.isin(completions, grid.completions_per_step)
    passes = passes_of(
        config.model.architecture,
        config.recipe,
        config.generation,
        config.hardware.device,
        n[:, None].astype(float),
    )
    memory, learner, phases = _quickest(config, passes, completions)
    # Micro-batches, which are part of a run's identity, are chosen by assumed times alone.
    hardware = config.hardware
    phases = phases.times(hardware.factor("generation"), hardware.factor("training"))
    # Costs of one generation are shared evenly by the updates made with it.
    flops, sampling = (each / updates for each in _flops(config, passes, completions))
    seconds = phases.total / updates
    whole = np.zeros((*completions.shape, len(budgets)))
    evaluation = np.broadcast_to(evaluation_seconds(config, memory.concurrency), seconds.shape)
    return Candidates(
        variant=variant,
        num_generations=n,
        problems_per_batch=B,
        budgets=budgets,
        listed=listed,
        cost=_cost(config, passes, completions, flops, seconds),
        flops=flops,
        hardware_flops=sampling + learner * config.run_hardware.devices_per_run / updates,
        seconds=seconds,
        phases=phases,
        memory=memory,
        steps=whole.astype(np.int64),
        records=whole.astype(np.int64),
        evaluation_flops=evaluation_flops(config),
        evaluation_seconds=evaluation,
        run_seconds=whole,
        broken=whole.astype(np.int64),
    )


def _quickest(
    config: SweepConfig, passes: Passes, completions: Ints
) -> tuple[MemoryFit, Floats, StepSeconds]:
    """How n x B fit their devices in the least time, FLOPs that a device computes in scoring and
    training, and the seconds of one generation and its updates: (N, M) each."""
    at = reached(config)

    def timed(memory: MemoryFit) -> tuple[MemoryFit, Floats, StepSeconds]:
        learner = _learner(config, passes, completions, memory)
        return memory, learner, _phases(config, passes, completions, memory, learner, at)

    # Where passes cost nothing beside their FLOPs, time would tell large micro-batches from small
    # ones by padding alone.
    if config.recipe.micro_batch is not None or at.pass_overhead_s == 0:
        return timed(planned_memory(config, completions))
    # Halves of the largest allowed, and the largest divisor that fits.
    most = config.recipe.max_micro_batch
    sizes = [2**power for power in range(most.bit_length())]
    fits = [planned_memory(config, completions, size) for size in (*sizes, None)]
    return timed(quickest(fits, [timed(fit)[2].total for fit in fits]))


def planned_memory(
    config: SweepConfig, completions: Ints, micro_batch: int | None = None
) -> MemoryFit:
    """How n x B = `completions` fit, in micro-batches of so many: arrays of their shape."""
    recipe = config.recipe
    if micro_batch is not None:
        recipe = replaced(recipe, micro_batch=micro_batch)
    task, hardware = config.task, config.run_hardware
    return fit_memory(
        config.model.architecture,
        recipe,
        hardware,
        config.generation,
        lengths=task.lengths,
        completions=completions,
        evaluated=[
            Sampled(
                prompt=on.task.planned_prompt_tokens,
                completion=float(on.task.completion_limit),
                at_once=evaluation_batch(on),
            )
            for on in evaluations(config)
        ],
    )


def _learner(config: SweepConfig, passes: Passes, completions: Ints, memory: MemoryFit) -> Floats:
    """FLOPs that a device computes in scoring and training one generation: (N, M)."""
    return learner_flops(
        config.model.architecture,
        config.hardware,
        passes,
        config.task.lengths,
        local=np.maximum(completions // config.run_hardware.devices_per_run, 1),
        micro_batch=memory.micro_batch,
        mini_batches=config.recipe.mini_batches,
    )


def _scoring(
    config: SweepConfig,
    passes: Passes,
    completions: Ints,
    memory: MemoryFit,
    learner: Floats,
) -> Floats | float:
    """Those of `learner` that a generator beside the trainer takes over: (N, M); 0 without one."""
    if not config.generation.overlap:
        return 0.0
    trained = replace(passes, old_policy=False, reference=False)
    return learner - _learner(config, trained, completions, memory)


def _phases(
    config: SweepConfig,
    passes: Passes,
    completions: Ints,
    memory: MemoryFit,
    learner: Floats,
    at: Efficiency,
) -> StepSeconds:
    """Seconds of one generation and its updates, by phase: (N, M) each."""
    return step_seconds(
        config.model.architecture,
        config.recipe,
        config.run_hardware,
        config.generation,
        passes,
        config.task.lengths,
        completions=completions,
        fit=memory,
        learner=learner,
        scoring=_scoring(config, passes, completions, memory, learner),
        reached=at,
    )


def _flops(config: SweepConfig, passes: Passes, completions: Ints) -> tuple[Floats, Floats]:
    """FLOPs of one generation with its updates, and of its sampling alone: (N, M) each."""
    prompt, completion = config.task.planned_prompt_tokens, config.task.planned_completion_tokens
    rollout = rollout_flops(config.model.architecture, prompt, completion, passes)
    everything, sampling = (
        np.asarray(completions * np.broadcast_to(each, completions.shape), dtype=np.float64)
        for each in (rollout.total, rollout.prefill + rollout.decode)
    )
    return everything, sampling


def _cost(
    config: SweepConfig, passes: Passes, completions: Ints, flops: Floats, seconds: Floats
) -> Floats:
    """What an update costs in the budget's unit: (N, M)."""
    task, updates = config.task, config.recipe.updates_per_generation
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
            cost = seconds * config.devices_taken / 3600
        case _ as unit:
            assert_never(unit)
    return cost


def _records(table: Candidates) -> Ints:
    """Held-out evaluations up to every budget: (N, M, K).

    One at step 0, at each milestone, and at each point of the log-spaced grid of compute. Runs of a
    model share the one at step 0, but each may be the first, or wait for it.
    """
    flops = table.flops[..., None]
    decades = np.log10(table.total(table.flops)) - np.maximum(np.log10(flops), 0)
    milestones = np.arange(1, len(table.budgets) + 1)
    between = np.floor(table.config.evaluation.records_per_decade * decades)
    records: Ints = 1 + milestones + between.astype(np.int64)
    return records
