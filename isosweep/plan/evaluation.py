"""What held-out evaluation takes of a plan: FLOPs and time, once and over all runs.

FLOPs follow from the lengths that the planner assumes, exactly by `costs.flops`; time from
efficiencies, which are assumed until `mode=calibrate` has measured them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.config.evaluation_sets import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import prefill_flops, rollout_flops
from isosweep.costs.timing import Sampling, sampling
from isosweep.plan.cells import Plan
from isosweep.plan.document import EvaluationPlan, SetPlan
from isosweep.plan.spec import passes_of


def evaluations(config: SweepConfig) -> tuple[SweepConfig, ...]:
    """The sweep with each evaluation of a record as its only one: the main one, then its sets'.

    A mixture's main one is its parts'.
    """
    main = () if config.task.parts else (config,)
    return (*main, *on_all(config).values())


def evaluation_flops(config: SweepConfig) -> float:
    """FLOPs of one held-out evaluation, of its further sets too: sampling k completions of every
    problem.

    Counted as rollouts are (`costs.flops.rollout_flops`): padding is not.
    """
    return math.fsum(map(_flops, evaluations(config)))


def _flops(config: SweepConfig) -> float:
    task, k = config.task, config.evaluation.samples_per_problem
    arch = config.model.architecture
    passes = passes_of(arch, config.recipe, config.generation, config.hardware.device, float(k))
    prompt, completion = task.planned_prompt_tokens, task.planned_completion_tokens
    one = rollout_flops(arch, prompt, completion, replace(passes, draws=1.0))
    return float(task.num_eval_problems * k * (one.prefill + one.decode))


def evaluation_seconds(config: SweepConfig) -> float:
    """Seconds of one held-out evaluation, of its further sets too."""
    return math.fsum(map(_seconds, evaluations(config)))


def _seconds(config: SweepConfig) -> float:
    answers = config.task.num_eval_problems * config.evaluation.samples_per_problem
    sampled = evaluation_sampling(config).seconds(config.run_hardware)
    return float(sampled[0]) + answers * config.hardware.answer_overhead_s


def evaluation_sampling(config: SweepConfig) -> Sampling:
    """What sampling takes for one evaluation on the main held-out problems: arrays of one."""
    settings, task = config.evaluation, config.task
    arch = config.model.architecture
    rollouts = task.num_eval_problems * settings.samples_per_problem
    at_once = settings.completions_at_once(task.num_eval_problems, 1)
    return sampling(
        arch,
        config.run_hardware,
        task.lengths,
        rollouts=np.array([float(rollouts)]),
        concurrency=np.array([settings.batch_size]),
        prefill_flops=float(prefill_flops(arch, task.planned_prompt_tokens)),
        tensor_parallel=config.generation.tensor_parallel,
        # An engine is handed all of them.
        batches=math.ceil(rollouts / at_once) if config.generation.name == "transformers" else 1,
    )


def evaluation_plan(plan: Plan, configs: Sequence[SweepConfig]) -> EvaluationPlan:
    """What evaluation takes of the whole plan; `configs`: one a variant of `grid.axes`."""
    devices = configs[0].devices_taken
    flops = math.fsum(run.evaluation_flops for run in plan.runs)
    seconds = math.fsum(run.evaluation_seconds for run in plan.runs)
    training = math.fsum(run.planned_flops for run in plan.runs)
    return EvaluationPlan(
        problems=tuple(sorted({config.task.num_eval_problems for config in configs})),
        samples_per_problem=configs[0].evaluation.samples_per_problem,
        sets=tuple(
            _set_plan(name, on, name in configs[0].task.parts)
            for name, on in on_all(configs[0]).items()
        ),
        records=sum(run.records for run in plan.runs),
        flops=flops,
        share_of_flops=flops / (flops + training),
        device_hours=seconds * devices / 3600,
        share_of_time=seconds / math.fsum(run.seconds for run in plan.runs),
    )


def _set_plan(name: str, on: SweepConfig, part: bool) -> SetPlan:
    return SetPlan(
        name=name,
        problems=on.task.num_eval_problems,
        samples_per_problem=on.evaluation.samples_per_problem,
        flops_of_one=_flops(on),
        part=part,
    )
