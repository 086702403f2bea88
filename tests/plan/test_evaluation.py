"""What held-out evaluation takes of a plan."""

import itertools
from typing import Any

import numpy as np
import pytest

from isosweep.compute import Compute
from isosweep.config.base import replaced
from isosweep.costs.flops import decode_flops, prefill_flops
from isosweep.plan.cells import predicted
from isosweep.plan.enumerate import planned_memory
from isosweep.plan.evaluation import evaluation_flops, evaluation_seconds
from isosweep.plan.spec import reached, run_spec
from isosweep.plan.study import plan_document, resolve
from isosweep.training.schedule import Schedule
from tests.conftest import make_config


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
    positions = config.task.completion_limit - 1

    def seconds(**hardware: Any) -> float:
        none = {name: 0.0 for name in vars(config.hardware) if name.endswith("_overhead_s")}
        changed = replaced(config.hardware, **(none | hardware))
        return float(evaluation_seconds(replaced(config, hardware=changed))[0])

    least = seconds()
    assert seconds(token_overhead_s=1.0) - least == pytest.approx(800 / 256 * positions)
    assert seconds(answer_overhead_s=1.0) - least == pytest.approx(800)
    assert seconds(generation_utilization=reached(config).generation_utilization / 2) == (
        pytest.approx(2 * least)
    )


SETS = (
    "evaluation.sets={long:{task:{sort:{levels:[9]},num_eval_problems:64}},cool:{temperature:0.5}}"
)


def test_every_set_is_part_of_an_evaluation() -> None:
    plain, asked = make_config(), make_config(SETS)
    long = make_config("task.sort.levels=[9]", "task.num_eval_problems=64")
    for cost in (evaluation_flops, evaluation_seconds):
        assert cost(asked) == pytest.approx(2 * cost(plain) + cost(long))
    without, study = resolve(plain), resolve(asked)
    assert [run.run_id for run in study.plan.runs] == [run.run_id for run in without.plan.runs]
    assert study.plan.plan_id == without.plan.plan_id
    for run, other in zip(study.plan.runs, without.plan.runs, strict=True):
        assert run.planned_flops == other.planned_flops
        assert predicted(run.seconds) > predicted(other.seconds)
    document = plan_document(study)["evaluation"]
    assert [(each["name"], each["problems"]) for each in document["sets"]] == [
        ("long", 64),
        ("cool", plain.task.num_eval_problems),
    ]
    assert plan_document(without)["evaluation"]["sets"] == ()


def test_a_sets_longest_answers_have_room_in_memory_and_in_the_engine() -> None:
    long = "evaluation.sets={long:{task:{max_completion_tokens:8192}}}"
    gpu = ("model=qwen-0.5b", "budget=1e18", "task.max_completion_tokens=512")
    few = np.array([64])
    plain, asked = (planned_memory(make_config(*gpu, *more), few) for more in ((), (long,)))
    assert asked.engine is not None
    assert plain.engine is not None
    assert asked.engine.context_tokens - plain.engine.context_tokens == 8192 - 512
    # What training is given stays.
    assert asked.engine.batched_tokens == plain.engine.batched_tokens
    assert asked.concurrency == plain.concurrency
    sampled = (*gpu, "generation=transformers")
    plain, asked = (planned_memory(make_config(*sampled, *more), few) for more in ((), (long,)))
    # Answers that are longer are fewer at once.
    assert asked.needed[0] == plain.needed[0]
    assert asked.micro_batch == plain.micro_batch
    one = {"num_generations": 2, "problems_per_batch": 2, "seed": 0, "micro_batch": 1}
    specs = [run_spec(make_config(*sampled, *more), **one) for more in ((), (long,))]
    assert 1 <= specs[1].evaluation_batch < specs[0].evaluation_batch


def test_the_default_sweeps_evaluation_is_priced_as_it_was_measured() -> None:
    # 99 s beside 300 s of training, on two cores that nothing else kept busy.
    study = resolve(make_config())
    evaluation = sum(run.evaluation_seconds for run in study.plan.runs)
    startup = study.config.hardware.startup * len(study.plan.runs)
    training = sum(predicted(run.seconds) for run in study.plan.runs) - evaluation - startup
    assert 1 / 1.5 < (evaluation / training) / (99 / 300) < 1.5
    assert 1 / 1.5 < evaluation / 99 < 1.5
    # Twelve times the problems, in batches as large.
    thorough = evaluation_seconds(make_config("evaluation=thorough"))
    assert thorough == pytest.approx(12 * evaluation_seconds(study.config), rel=0.01)
