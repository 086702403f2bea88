"""What held-out evaluation takes of a plan: FLOPs and time, once and over all runs.

FLOPs follow from the lengths that the planner assumes, exactly by `costs.flops`; time from assumed
efficiencies, corrected by what evaluations of runs on the hardware took.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isosweep.config.evaluation import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import PhaseFlops, rollout_flops
from isosweep.costs.steps import Floats, Ints
from isosweep.costs.timing import sampling
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.spec import evaluation_batch, passes_of, reached
from isosweep.store.completions import MOST_CHARACTERS, MOST_ROLLOUTS


def evaluations(config: SweepConfig) -> tuple[SweepConfig, ...]:
    """The sweep with each evaluation of a record as its only one: the main one, then its sets'.

    A mixture's main one is its parts'.
    """
    main = () if config.task.parts else (config,)
    return (*main, *on_all(config).values())


def _answer_flops(config: SweepConfig) -> PhaseFlops:
    """FLOPs of one of a problem's k answers, of which `prefill` and `decode` are spent."""
    passes = passes_of(config, float(config.evaluation.samples_per_problem))
    sizes = config.task.planned_prompt_tokens, config.task.planned_completion_tokens
    return rollout_flops(config.model.architecture, *sizes, replace(passes, draws=1.0))


def evaluation_flops(config: SweepConfig) -> float:
    """FLOPs of one held-out evaluation, of its further sets too: sampling k completions of every
    problem, counted as rollouts are (`costs.flops.rollout_flops`), padding left out."""
    each = ((_answers(on, 1), _answer_flops(on)) for on in evaluations(config))
    return math.fsum(answers * float(one.prefill + one.decode) for answers, one in each)


def evaluation_seconds(config: SweepConfig, requests: Ints) -> Floats:
    """Seconds of one held-out evaluation, of its further sets too; `requests`: the most that an
    engine of vLLM has at once. Arrays follow its shape."""
    seconds: Floats = np.sum([_seconds(on, requests) for on in evaluations(config)], axis=0)
    return seconds * config.hardware.factor("evaluation")


def _answers(config: SweepConfig, shares: int) -> int:
    """Answers of one of so many `shares` of the held-out problems: the largest."""
    return math.ceil(config.task.num_eval_problems / shares) * config.evaluation.samples_per_problem


def _seconds(config: SweepConfig, requests: Ints) -> Floats:
    """An engine is handed all of its share, and has `requests` at once; transformers takes it a
    batch at a time."""
    generation, devices = config.generation, config.run_hardware.devices_per_run
    shares, at_once = devices, np.full(requests.shape, evaluation_batch(config))
    if generation.name == "vllm":
        shares = generation.sampling_devices(devices) // generation.tensor_parallel
        at_once = np.maximum(requests, 1)
    answers, at = _answers(config, shares), reached(config)
    sampled = sampling(
        config.model.architecture,
        config.run_hardware,
        generation,
        config.task.lengths,
        rollouts=np.full(at_once.shape, float(answers)),
        concurrency=np.minimum(answers, at_once),
        prefill_flops=float(_answer_flops(config).prefill),
    )
    seconds: Floats = sampled.seconds(at) + _answers(config, devices) * at.answer_overhead_s
    return seconds


# Bytes of a token's text, and those of a kept answer besides its text.
_TOKEN_BYTES, _ANSWER_BYTES = 4, 150


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """What held-out evaluation takes of the whole sweep, by the lengths that the planner assumes.

    `problems`: held-out ones, each number among `grid.axes`; `sets`: those of the parts of a
    mixture, and of further sets, by name; `records`: evaluations of all runs, those before training
    counted once a run, though runs of a model share them. Shares are fractions of the FLOPs of
    training, generation and evaluation, and of the predicted device time. `kept_bytes`: of the
    answers that are kept to be read.
    """

    problems: tuple[int, ...]
    samples_per_problem: int
    records: int
    share_of_flops: float
    share_of_time: float
    sets: Mapping[str, int] = field(default_factory=dict)
    kept_bytes: float = 0.0


def evaluation_plan(plan: Plan, configs: Sequence[SweepConfig]) -> EvaluationPlan:
    """What evaluation takes of the whole plan; `configs`: one a variant of `grid.axes`."""
    flops = math.fsum(run.evaluation_flops for run in plan.runs)
    seconds = math.fsum(run.evaluation_seconds for run in plan.runs)
    training = math.fsum(predicted(run.planned_flops) for run in plan.runs)
    records = sum(run.records for run in plan.runs)
    return EvaluationPlan(
        problems=tuple(sorted({config.task.num_eval_problems for config in configs})),
        samples_per_problem=configs[0].evaluation.samples_per_problem,
        sets={name: on.task.num_eval_problems for name, on in on_all(configs[0]).items()},
        records=records,
        kept_bytes=records * _kept_bytes(configs[0]),
        share_of_flops=flops / (flops + training),
        share_of_time=seconds / math.fsum(predicted(run.seconds) for run in plan.runs),
    )


def _kept_bytes(config: SweepConfig) -> float:
    """Bytes of what a record keeps of answers: each with its prompt, if shorter than the limit."""
    asked, lengths = config.evaluation, config.task.lengths
    answers = asked.keep_completions * asked.samples_per_problem + MOST_ROLLOUTS
    text = _TOKEN_BYTES * (lengths.completion + lengths.prompt / asked.samples_per_problem)
    return answers * (_ANSWER_BYTES + min(text, MOST_CHARACTERS)) if asked.keep_completions else 0.0
