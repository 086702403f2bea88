"""Runs on further evaluation sets, and on mixtures: each set and part is recorded as a main
evaluation would be, and nothing of training changes."""

from pathlib import Path

import pytest

from isosweep.config.base import replaced
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from tests.conftest import set_of
from tests.runs import log_lines, reproducible
from tests.training.builders import metrics, spec_of, trained

pytestmark = pytest.mark.train

BUDGETS = (1.6e9, 3.2e9)
SETS = (
    *set_of("long", "sort", "sort.levels=[6,7]", "num_eval_problems=16"),
    "+evaluation.sets.long.samples_per_problem=3",
    "+evaluation.sets.cool={temperature:0.5,samples_per_problem:3}",
    # As part `short` of the mixture: the limit is that of the longest answers of all.
    *set_of("four", "sort", "max_completion_tokens=7", "sort.levels=[4]", "num_eval_problems=16"),
    "+evaluation.sets.train.problems=train",
)
COOL = ("evaluation.temperature=0.5", "evaluation.samples_per_problem=3")
MIXED = (
    *("task=sort_mix", "task.mixture.parts.short.success_at=0.5", "task.num_eval_problems=null"),
    *(f"task.mixture.parts.{part}.num_eval_problems=16" for part in ("long", "short")),
    "task.mixture.shares={long:0.75,short:0.25}",
)


@pytest.fixture(scope="module")
def with_sets(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run that is evaluated on four sets besides."""
    return trained(spec_of(*SETS), tmp_path_factory.mktemp("sets"), BUDGETS)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run without any."""
    return trained(spec_of(), tmp_path_factory.mktemp("plain"), BUDGETS)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run whose shares go from the short problems to the long ones."""
    return trained(spec_of(*MIXED), tmp_path_factory.mktemp("mixed"), BUDGETS)


def test_training_and_the_main_records_are_those_of_a_run_without_sets(
    with_sets: RunPaths, without: RunPaths
) -> None:
    assert with_sets.run_id == without.run_id
    assert metrics(with_sets) == metrics(without) != []
    records = reproducible(with_sets)
    names = ["long", "cool", "four", "train"]
    assert [sorted(record.pop("sets")) for record in records] == [sorted(names)] * len(records)
    assert records == reproducible(without)
    assert not any("sets" in line for line in log_lines(without.records))


def test_a_set_s_records_are_those_of_a_run_that_has_it_as_its_main_evaluation(
    with_sets: RunPaths, tmp_path: Path
) -> None:
    alone = reproducible(trained(spec_of(*COOL), tmp_path, BUDGETS[:1]))
    own = [record["sets"]["cool"] for record in reproducible(with_sets)[: len(alone)]]
    assert own == [{name: record[name] for name in own[0]} for record in alone]


def test_a_set_before_training_is_shared_with_runs_whose_main_evaluation_it_is(
    with_sets: RunPaths,
) -> None:
    from isosweep.config.evaluation import on_all
    from isosweep.training.evaluate import base_identity

    spec = spec_of(*SETS)
    assert base_identity(on_all(spec)["cool"]) == base_identity(spec_of(*COOL))
    assert base_identity(spec) == base_identity(replaced(spec, evaluation=spec_of().evaluation))
    stored = (with_sets.root.parent.parent / "evaluations").glob("*.json")
    assert len([*stored]) == 5


def test_the_rollouts_of_a_step_are_in_the_shares_and_logged_by_part(
    mixed: RunPaths,
) -> None:
    lines = metrics(mixed)
    long = [line["share_of_long"] for line in lines]
    assert max(abs(sum(long[:i]) - 0.75 * i) * 4 for i in range(len(long))) < 1
    for line in lines:
        parts = {name: line[f"share_of_{name}"] for name in ("long", "short")}
        # A reward is that of rollouts that there are.
        rewards = {name: line.get(f"reward_of_{name}") for name in parts}
        assert all((reward is not None) == (parts[name] > 0) for name, reward in rewards.items())
        whole = sum(share * (rewards[name] or 0) for name, share in parts.items())
        assert whole == pytest.approx(line["reward"], abs=1e-6)


def test_a_part_is_recorded_as_a_set_and_the_main_record_is_that_of_all_parts(
    mixed: RunPaths, with_sets: RunPaths
) -> None:
    records = read_records(mixed.records).records
    for record in records:
        parts = [record.sets["long"], record.sets["short"]]
        assert record.successes == (*parts[0].successes, *parts[1].successes)
        mean = sum(part.completion_tokens or 0 for part in parts) / 2
        assert record.completion_tokens == pytest.approx(mean)
    # Before training: afterwards the policies are others.
    assert reproducible(mixed)[0]["sets"]["short"] == reproducible(with_sets)[0]["sets"]["four"]
