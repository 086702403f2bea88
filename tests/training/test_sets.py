"""Further evaluation sets: each is recorded as a main evaluation would be, and changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.files import write_json
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_metrics, read_records
from isosweep.tasks import training_problems
from isosweep.training.worker import TrainRun
from tests.conftest import SMALL, make_config
from tests.runs import log_lines, reproducible

pytestmark = pytest.mark.train

BUDGETS = (3.2e9, 6.4e9)
SETS = (
    "evaluation.sets={"
    "long:{task:{sort:{levels:[6,7]},num_eval_problems:16},samples_per_problem:3},"
    "cool:{temperature:0.5,samples_per_problem:3},"
    "train:{problems:train,task:{num_eval_problems:20}}}"
)
COOL = ("evaluation.temperature=0.5", "evaluation.samples_per_problem=3")


def spec_of(*overrides: str) -> RunSpec:
    config = make_config(*SMALL, *overrides)
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=16)


def trained(
    root: Path, *overrides: str, attempts: tuple[tuple[float, ...], ...] = (BUDGETS,)
) -> RunPaths:
    """A run taken to the milestones of each of the `attempts`."""
    spec = spec_of(*overrides)
    run = RunPaths(root / "runs" / spec.run_id)
    run.root.mkdir(parents=True)
    write_json(run.spec, {"spec": spec.to_json()})
    for milestones in attempts:
        job = TrainRun(str(run.root), milestones, "flops", make_config().health)
        assert job() == "finished"
    return run


@pytest.fixture(scope="module")
def with_sets(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run that is evaluated on three sets besides."""
    return trained(tmp_path_factory.mktemp("sets"), SETS)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run without any."""
    return trained(tmp_path_factory.mktemp("plain"))


def metrics(run: RunPaths) -> list[dict[str, Any]]:
    """What each step logged, but for times."""
    lines = read_metrics(run.metrics, run.records)
    timed = ("time", "attempt")
    return [{k: v for k, v in x.items() if k not in timed and "seconds" not in k} for x in lines]


def test_training_and_the_main_records_are_those_of_a_run_without_sets(
    with_sets: RunPaths, without: RunPaths
) -> None:
    assert with_sets.run_id == without.run_id
    assert metrics(with_sets) == metrics(without) != []
    records = reproducible(with_sets)
    assert [list(record.pop("sets")) for record in records] == [["long", "cool", "train"]] * len(
        records
    )
    assert records == reproducible(without)


def test_the_lines_of_a_run_without_sets_say_nothing_of_them(without: RunPaths) -> None:
    assert not any("sets" in line for line in log_lines(without.records))


def test_a_set_s_records_are_those_of_a_run_that_has_it_as_its_main_evaluation(
    with_sets: RunPaths, tmp_path: Path
) -> None:
    alone = reproducible(trained(tmp_path, *COOL))
    own = [record["sets"]["cool"] for record in reproducible(with_sets)]
    assert own == [{name: record[name] for name in own[0]} for record in alone]


def test_other_problems_and_those_trained_on_are_evaluated_as_main_ones_would_be(
    with_sets: RunPaths,
) -> None:
    import torch

    from isosweep.training.evaluate import Evaluator
    from isosweep.training.grpo import load_policy

    torch.set_num_threads(1)
    spec = spec_of()
    longer = spec_of(
        *("task.sort.levels=[6,7]", "task.num_eval_problems=16"), "evaluation.samples_per_problem=3"
    )
    records = read_records(with_sets.records).records
    checkpoints = complete_checkpoints(with_sets.attempt_checkpoints(1))
    last = records[-1].step
    for record, policy in ((records[0], weights(spec.model)), (records[-1], checkpoints[last])):
        model, tokenizer = load_policy(spec, str(policy))
        taken = Evaluator(longer, tokenizer)(model)
        assert record.sets["long"].successes == taken.successes
        assert record.sets["long"].completion_tokens == taken.completion_tokens
        problems = training_problems(spec.task)[:20]
        taken = Evaluator(spec, tokenizer, problems=problems)(model)
        assert record.sets["train"].successes == taken.successes


@pytest.mark.long
def test_a_run_that_is_extended_has_the_records_of_one_that_never_stopped(
    with_sets: RunPaths, tmp_path: Path
) -> None:
    extended = trained(tmp_path, SETS, attempts=(BUDGETS[:1], BUDGETS))
    assert len({line["attempt"] for line in log_lines(extended.records)}) == 2
    assert reproducible(extended) == reproducible(with_sets)


def test_a_set_before_training_is_shared_with_runs_whose_main_evaluation_it_is(
    with_sets: RunPaths,
) -> None:
    from isosweep.config.evaluation_sets import on_sets
    from isosweep.training.base_evaluation import base_identity

    spec = spec_of(SETS)
    assert base_identity(on_sets(spec)["cool"]) == base_identity(spec_of(*COOL))
    assert base_identity(spec) == base_identity(replace(spec, evaluation=spec_of().evaluation))
    stored = (with_sets.root.parent.parent / "evaluations").glob("*.json")
    assert len([*stored]) == 4
