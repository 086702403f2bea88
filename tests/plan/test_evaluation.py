"""What held-out evaluation takes of a plan."""

import itertools
from typing import Any

import numpy as np
import pytest

from isosweep.compute import Compute
from isosweep.config.sweep import SweepConfig
from isosweep.costs.engine import MAX_NUM_SEQS
from isosweep.costs.flops import decode_flops, prefill_flops
from isosweep.plan.cells import predicted
from isosweep.plan.evaluation import evaluation_flops, evaluation_seconds
from isosweep.plan.spec import evaluation_batch, reached
from isosweep.plan.study import evaluation_of, resolve
from isosweep.training.schedule import Schedule
from tests.conftest import candidates_of, make_config, set_of

SETS = (
    *set_of("long", "sort", "sort.levels=[9]", "num_eval_problems=64"),
    "+evaluation.sets.cool.temperature=0.5",
)


def seconds_of(config: SweepConfig) -> float:
    return float(evaluation_seconds(config, np.array([MAX_NUM_SEQS]))[0])


def test_an_evaluation_samples_k_completions_of_every_problem() -> None:
    config = make_config("task.num_eval_problems=50", "evaluation.samples_per_problem=4")
    arch, task = config.model.architecture, config.task
    prompt, completion = task.planned_prompt_tokens, task.planned_completion_tokens
    one = prefill_flops(arch, prompt) + decode_flops(arch, prompt, completion)
    assert evaluation_flops(config) == pytest.approx(200 * float(one))


def test_runs_are_evaluated_as_often_as_planned() -> None:
    study = resolve(make_config("budget=[1e10,1e11]", "evaluation.records_per_decade=3"))
    for run in study.plan.runs:
        schedule = Schedule(run.milestones, "flops", 3)
        each = predicted(run.planned_flops) / run.num_steps
        spent = [
            Compute(generations=step, training_flops=step * each)
            for step in range(run.num_steps + 1)
        ]
        pairs = itertools.pairwise(spent)
        due = 1 + sum(schedule.record_due(before, after) for before, after in pairs)
        # Milestones and points of the grid that one step passes together are one record.
        assert run.records - 6 <= due <= run.records
        assert run.evaluation_flops == pytest.approx(run.records * evaluation_flops(study.config))


def test_an_evaluation_takes_what_its_batches_positions_and_answers_take() -> None:
    asked = ("task.num_eval_problems=100", "evaluation.samples_per_problem=8")
    config = make_config(*asked, "evaluation.batch_size=256")
    names = ("step", "token", "pass", "answer")

    def seconds(**hardware: Any) -> float:
        each = {f"{name}_overhead_s": 0.0 for name in names} | hardware
        typed = (f"hardware.{name}={value}" for name, value in each.items())
        return seconds_of(make_config(*asked, "evaluation.batch_size=256", *typed))

    least, positions = seconds(), config.task.completion_limit - 1
    assert seconds(token_overhead_s=1.0) - least == pytest.approx(800 / 256 * positions)
    assert seconds(answer_overhead_s=1.0) - least == pytest.approx(800)
    half = reached(config).generation_utilization / 2
    assert seconds(generation_utilization=half) == pytest.approx(2 * least)


def test_every_set_and_part_is_an_evaluation_of_its_own() -> None:
    plain, asked = make_config(), make_config(*SETS)
    long = make_config("task.sort.levels=[9]", "task.num_eval_problems=64")
    mixed = make_config("task=sort_mix", "budget=8192", "budget_unit=rollouts")
    parts = [
        make_config(f"task.sort.levels=[{levels}]", "task.max_completion_tokens=7", "budget=1e10")
        for levels in (6, 4)
    ]
    for cost in (evaluation_flops, seconds_of):
        assert cost(asked) == pytest.approx(2 * cost(plain) + cost(long))
        # Half of the held-out problems each.
        assert cost(mixed) == pytest.approx(sum(map(cost, parts)) / 2, rel=0.1)
    without, study = resolve(plain), resolve(asked)
    assert study.plan.plan_id == without.plan.plan_id
    for run, other in zip(study.plan.runs, without.plan.runs, strict=True):
        assert run.planned_flops == other.planned_flops
        assert predicted(run.seconds) > predicted(other.seconds)
    assert evaluation_of(study).sets == {"long": 64, "cool": plain.task.num_eval_problems}
    assert evaluation_of(without).sets == {}


def test_a_plan_says_which_share_of_its_compute_evaluation_takes() -> None:
    study = resolve(make_config("grid.axes={task.num_eval_problems:[64,128]}"))
    evaluation, runs = evaluation_of(study), study.plan.runs
    assert evaluation.problems == (64, 128)
    flops = sum(run.evaluation_flops for run in runs)
    training = sum(predicted(run.planned_flops) for run in runs)
    assert evaluation.share_of_flops == pytest.approx(flops / (flops + training))
    assert 0 < evaluation.share_of_time < 1


def test_a_sets_longest_answers_have_room_in_the_engine_and_fewer_at_once() -> None:
    gpu = ("model=qwen-0.5b", "budget=1e18", "task.max_completion_tokens=512")
    long = set_of("long", "math", "max_completion_tokens=8192")
    plain, asked = (candidates_of(make_config(*gpu, *more))[0].memory for more in ((), long))
    assert plain.engine is not None
    assert asked.engine is not None
    assert asked.engine.context_tokens - plain.engine.context_tokens == 8192 - 512
    # What training is given stays.
    assert (asked.engine.batched_tokens == plain.engine.batched_tokens).all()
    assert (asked.concurrency == plain.concurrency).all()
    sampled = resolve(make_config(*gpu, "generation=transformers", *long))
    alone = evaluation_batch(sampled.config)
    assert {1 <= spec.evaluation_batch < alone for spec in sampled.specs.values()} == {True}


def test_answers_at_once_are_as_many_as_fit_and_no_more_than_there_are() -> None:
    gpu = ("model=qwen-1.5b", "generation=transformers", "hardware=h100", "budget=1e20")
    long = (*gpu, "task.max_completion_tokens=16384", "evaluation.samples_per_problem=8")
    assert 16 < evaluation_batch(make_config(*long, "task.num_eval_problems=8192")) < 2048
    assert evaluation_batch(make_config(*long, "task.num_eval_problems=2")) == 16
    assert evaluation_batch(make_config("task.num_eval_problems=4096")) == 2048


def test_the_default_sweeps_evaluation_is_priced_as_it_was_measured() -> None:
    # 99 s beside 300 s of training, on two cores that nothing else kept busy.
    study = resolve(make_config())
    evaluation = sum(run.evaluation_seconds for run in study.plan.runs)
    startup = study.config.hardware.startup * len(study.plan.runs)
    training = sum(predicted(run.seconds) for run in study.plan.runs) - evaluation - startup
    assert 1 / 1.5 < (evaluation / training) / (99 / 300) < 1.5
    assert 1 / 1.5 < evaluation / 99 < 1.5


def test_an_evaluations_batch_is_as_large_as_fits_and_one_that_does_not_is_refused() -> None:
    asked = (
        *("model=qwen-1.5b", "generation=transformers", "hardware=h100"),
        *("task.num_eval_problems=8192", "evaluation.samples_per_problem=8"),
        *("task.max_completion_tokens=16384", "budget=1e20"),
    )
    planned = evaluation_batch(make_config(*asked))
    assert 16 < planned < 2048
    for size, refused in ((None, False), (planned, False), (2 * planned, True)):
        config = make_config(*asked, f"evaluation.batch_size={size or 'null'}")
        (table,) = candidates_of(config)
        assert bool(table.broken["evaluation.batch_size"].all()) is refused
