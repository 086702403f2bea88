"""The seconds that a sweep's runs recorded, phase by phase, and the work that was done in them."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from isosweep.compute import Compute
from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.flops import prefill_flops
from isosweep.costs.timing import forward_passes, sampling
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.coefficients import PhaseName, Timed
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.evaluation import answers_of, evaluation_sampling, evaluations
from isosweep.plan.spec import passes_of, reached
from isosweep.store.paths import SweepPaths
from isosweep.store.records import Record, read_records

# What of `Compute` ends in `_seconds` and is read here.
_RECORDED = ("generation", "reward", "scoring", "device", "startup")


def timed_phases(config: SweepConfig, plan: Plan, paths: SweepPaths) -> list[Timed]:
    """Seconds of every phase between successive records, of all runs of a sweep.

    Work is as it was measured (tokens, hardware FLOPs), seconds as the time model counts them: of
    a run, not times its devices. Phases that were not recorded are absent. Not read are runs whose
    batches `recipe.schedule` changes, and those with `generation.overlap`, whose phases go on at
    the same time.
    """
    rows: list[Timed] = []
    for table in enumerate_candidates(combinations(config)):
        if table.later or table.config.generation.overlap:
            continue
        for run in plan.of_axes(table.variant.axes).runs:
            records = read_records(paths.run(run.run_id).records).records
            before = Compute()
            for record in records:
                rows += _between(table, run, before, record)
                before = record.compute
    return [row for row in rows if row.seconds > 0]


def _between(
    table: Candidates, run: PlannedRun, before: Compute, record: Record
) -> Iterator[Timed]:
    """The phases from the record of `before` to `record`, its evaluation included."""
    config, after, run_id = table.config, record.compute, run.run_id
    spent = {
        name: (value or 0) - (getattr(before, name) or 0) for name, value in vars(after).items()
    }
    seconds = {name: spent[f"{name}_seconds"] / config.devices for name in _RECORDED}
    if seconds["startup"] > 0:
        amounts = {"startup_s": 1.0}
        yield Timed(phase="start-up", run=run_id, seconds=seconds["startup"], amounts=amounts)
    # The evaluation before training may be another run's.
    if record.step > 0:
        amounts = _evaluation_amounts(config)
        yield Timed(phase="evaluation", run=run_id, seconds=record.seconds, amounts=amounts)
    if spent["generations"] <= 0 or spent["rollouts"] <= 0:
        return
    local = spent["rollouts"] / config.run_hardware.devices_per_run
    scored, trained = _learner_seconds(table, run, after, spent)
    micro_batches = local / max(int(table.memory.micro_batch[_place(table, run)]), 1)
    n = run.num_generations
    made = passes_of(
        config.model.architecture, config.recipe, config.generation, config.hardware.device, n
    )
    passes = forward_passes(config.hardware, made)
    work: dict[PhaseName, tuple[float, dict[str, float]]] = {
        "generation": (seconds["generation"], _generation_amounts(table, run, spent)),
        "scoring": (
            seconds["scoring"] + seconds["reward"],
            {
                "training_utilization": scored,
                "pass_overhead_s": micro_batches * passes.scoring,
                "step_overhead_s": float(spent["generations"]),
                "answer_overhead_s": local,
            },
        ),
        "training": (
            seconds["device"] - seconds["generation"] - seconds["scoring"] - seconds["reward"],
            {
                "training_utilization": trained,
                "pass_overhead_s": micro_batches * passes.training,
                "update_overhead_s": float(
                    spent["generations"] * config.recipe.updates_per_generation
                ),
            },
        ),
    }
    moved = spent["generations"] * float(table.phases.update[_place(table, run)])
    for phase, (measured, amounts) in work.items():
        beside = moved if phase == "training" else 0.0
        yield Timed(phase=phase, run=run_id, seconds=measured, amounts=amounts, beside=beside)


def _place(table: Candidates, run: PlannedRun) -> tuple[int, int]:
    return table.pair(run.num_generations, run.problems_per_batch)


def _learner_seconds(
    table: Candidates, run: PlannedRun, after: Compute, spent: Mapping[str, float]
) -> tuple[float, float]:
    """Seconds of scoring and of training at the devices' peak: counted, or as planned."""
    hardware = table.config.run_hardware
    if after.training_hardware_flops is None:
        planned = float(table.phases.training[_place(table, run)])
        return 0.0, spent["generations"] * planned * reached(table.config).training_utilization
    peak = hardware.peak_flops * hardware.devices_per_run
    return spent["scoring_hardware_flops"] / peak, spent["training_hardware_flops"] / peak


def _generation_amounts(
    table: Candidates, run: PlannedRun, spent: Mapping[str, float]
) -> dict[str, float]:
    """What was sampled, at the lengths that it had, by as many calls as it takes."""
    config, at = table.config, _place(table, run)
    hardware, generation = config.run_hardware, config.generation
    arch, rollouts = config.model.architecture, spent["rollouts"]
    lengths = Lengths(
        prompt=spent["prompt_tokens"] / rollouts,
        completion=spent["completion_tokens"] / rollouts,
        longest=float(config.task.completion_limit),
    )
    calls = rollouts / (run.num_generations * run.problems_per_batch)
    engines = generation.sampling_devices(hardware.devices_per_run) / generation.tensor_parallel
    counted = spent["prefill_flops"] / rollouts
    one = sampling(
        arch,
        hardware,
        generation,
        lengths,
        rollouts=np.array([rollouts / calls / engines]),
        concurrency=table.memory.concurrency[at[0], at[1] : at[1] + 1],
        prefill_flops=counted or float(prefill_flops(arch, lengths.prompt)),
    )
    return {
        "generation_utilization": calls * float(one.device[0]),
        "token_overhead_s": calls * float(one.positions[0]),
        "generation_overhead_s": calls * one.batches,
    }


def _evaluation_amounts(config: SweepConfig) -> dict[str, float]:
    """What one record's evaluations sample, as planned."""
    each = [(on, evaluation_sampling(on)) for on in evaluations(config)]
    answers = [answers_of(on, on.run_hardware.devices_per_run) for on, _ in each]
    return {
        "generation_utilization": math.fsum(float(one.device[0]) for _, one in each),
        "token_overhead_s": math.fsum(float(one.positions[0]) for _, one in each),
        "generation_overhead_s": math.fsum(one.batches for _, one in each),
        "answer_overhead_s": float(sum(answers)),
    }
