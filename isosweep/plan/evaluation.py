"""What held-out evaluation takes of a plan: FLOPs and time, once and over all runs.

FLOPs follow from the lengths that the planner assumes, exactly by `costs.flops`; time from assumed
efficiencies, corrected by what evaluations of runs on the hardware took.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.config.evaluation import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.costs.efficiency import Efficiency
from isosweep.costs.engine import MAX_NUM_SEQS
from isosweep.costs.flops import PhaseFlops, rollout_flops
from isosweep.costs.steps import Floats, Ints
from isosweep.costs.timing import Sampling, sampling
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.document import EvaluationPlan, SetPlan
from isosweep.plan.spec import evaluation_batch, passes_of, reached


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
    one, answers = _answer_flops(config), config.evaluation.samples_per_problem
    return float(config.task.num_eval_problems * answers * (one.prefill + one.decode))


def _answer_flops(config: SweepConfig) -> PhaseFlops:
    """FLOPs of one of a problem's k answers, of which `prefill` and `decode` are spent."""
    arch, k = config.model.architecture, float(config.evaluation.samples_per_problem)
    passes = passes_of(arch, config.recipe, config.generation, config.hardware.device, k)
    prompt = config.task.planned_prompt_tokens
    completion = config.task.planned_completion_tokens
    return rollout_flops(arch, prompt, completion, replace(passes, draws=1.0))


def evaluation_seconds(config: SweepConfig, requests: Ints | None = None) -> Floats:
    """Seconds of one held-out evaluation, of its further sets too; `requests`: the most that an
    engine of vLLM has at once, None: all that vLLM allows. Arrays follow its shape."""
    at = reached(config)
    each = [_seconds(on, at, requests) for on in evaluations(config)]
    total: Floats = np.sum(each, axis=0) * config.hardware.factor("evaluation")
    return total


def _seconds(config: SweepConfig, at: Efficiency, requests: Ints | None) -> Floats:
    judged = answers_of(config, config.run_hardware.devices_per_run)
    sampled = evaluation_sampling(config, requests).seconds(at)
    seconds: Floats = sampled + judged * at.answer_overhead_s
    return seconds


def answers_of(config: SweepConfig, shares: int) -> int:
    """Answers of one of so many `shares` of the held-out problems: the largest."""
    return math.ceil(config.task.num_eval_problems / shares) * config.evaluation.samples_per_problem


def evaluation_sampling(config: SweepConfig, requests: Ints | None = None) -> Sampling:
    """What sampling takes for one evaluation, of the share of a device or an engine.

    An engine is handed all of its share, and has `requests` at once; transformers takes it a batch
    at a time. Arrays follow `requests`, or have one.
    """
    generation, devices = config.generation, config.run_hardware.devices_per_run
    engine = generation.name == "vllm"
    sampling_devices = generation.sampling_devices(devices) if engine else devices
    answers = answers_of(config, sampling_devices // generation.tensor_parallel)
    most = np.array([MAX_NUM_SEQS]) if requests is None else np.maximum(requests, 1)
    if not engine:
        most = np.full(most.shape, evaluation_batch(config))
    return sampling(
        config.model.architecture,
        config.run_hardware,
        generation,
        config.task.lengths,
        rollouts=np.full(most.shape, float(answers)),
        concurrency=np.minimum(answers, most),
        prefill_flops=float(_answer_flops(config).prefill),
    )


def evaluation_plan(plan: Plan, configs: Sequence[SweepConfig]) -> EvaluationPlan:
    """What evaluation takes of the whole plan; `configs`: one a variant of `grid.axes`."""
    devices = configs[0].devices_taken
    flops = math.fsum(run.evaluation_flops for run in plan.runs)
    seconds = math.fsum(run.evaluation_seconds for run in plan.runs)
    training = math.fsum(predicted(run.planned_flops) for run in plan.runs)
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
        share_of_time=seconds / math.fsum(predicted(run.seconds) for run in plan.runs),
    )


def _set_plan(name: str, on: SweepConfig, part: bool) -> SetPlan:
    return SetPlan(
        name=name,
        problems=on.task.num_eval_problems,
        samples_per_problem=on.evaluation.samples_per_problem,
        flops_of_one=_flops(on),
        part=part,
    )
