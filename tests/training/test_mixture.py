"""Runs on a mixture: in shares, resumed bit for bit, each part evaluated as it would be alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isosweep.files import write_json
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_metrics, read_records
from isosweep.tasks import training_problems
from isosweep.tasks.mixing import PartProblem
from isosweep.training.worker import TrainRun, judged_health
from tests.conftest import SMALL, make_config
from tests.runs import log_lines, reproducible

pytestmark = pytest.mark.train

BUDGETS = (3.2e9, 6.4e9)
# The shares change until after the first budget's end.
MIXED = (
    *("task=sort_mix", "task.mixture.parts.short.success_at=0.5"),
    "task.mixture.shares=null",
    "task.mixture.schedule=[{at:0,long:0,short:1},{at:80,long:1,short:0}]",
)


def spec_of(*overrides: str, n: int = 4, batch: int = 4) -> RunSpec:
    config = make_config(*SMALL, *overrides)
    return run_spec(
        config, num_generations=n, problems_per_batch=batch, seed=0, micro_batch=n * batch
    )


def trained(
    spec: RunSpec, root: Path, attempts: Sequence[tuple[float, ...]] = (BUDGETS,)
) -> RunPaths:
    """The run taken to the milestones of each of the `attempts`."""
    run = RunPaths(root / "runs" / spec.run_id)
    run.root.mkdir(parents=True)
    write_json(run.spec, {"spec": spec.to_json()})
    for milestones in attempts:
        job = TrainRun(str(run.root), milestones, "flops", make_config().health)
        assert job() == "finished"
    return run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run whose shares go from the short problems to the long ones."""
    return trained(spec_of(*MIXED), tmp_path_factory.mktemp("mixed"))


def metrics(run: RunPaths) -> list[dict[str, Any]]:
    """What each step logged, but for times."""
    lines = read_metrics(run.metrics, run.records)
    timed = ("time", "attempt")
    return [{k: v for k, v in x.items() if k not in timed and "seconds" not in k} for x in lines]


def test_a_mixture_of_one_part_trains_as_the_task_alone(tmp_path: Path) -> None:
    alone = trained(spec_of(), tmp_path)
    only = trained(spec_of("task=mixture", "+task@task.mixture.parts.only=sort"), tmp_path)
    records = reproducible(only)
    for record in records:
        own = record.pop("sets")["only"]
        assert own == {name: record[name] for name in own}
    assert records == reproducible(alone) != []
    own_metrics = [{k: v for k, v in x.items() if "_of_only" not in k} for x in metrics(only)]
    assert own_metrics == metrics(alone)


@pytest.mark.long
def test_a_mixture_that_is_extended_within_its_schedule_is_as_if_it_never_stopped(
    mixed: RunPaths, tmp_path: Path
) -> None:
    extended = trained(spec_of(*MIXED), tmp_path, attempts=(BUDGETS[:1], BUDGETS))
    assert len({line["attempt"] for line in log_lines(extended.records)}) == 2
    assert reproducible(extended) == reproducible(mixed)
    assert metrics(extended) == metrics(mixed)


def test_the_rollouts_of_a_step_are_in_the_shares_of_the_schedule(mixed: RunPaths) -> None:
    long = [line["share_of_long"] for line in metrics(mixed)]
    # 4 problems a step, and 1/80 of the share a problem.
    expected = [min(1.0, (4 * step + 1.5) / 80) for step in range(len(long))]
    total = [abs(sum(long[:i]) - sum(expected[:i])) * 4 for i in range(len(long))]
    assert max(total) < 1
    assert (long[0], long[-1]) == (0, 1)


def test_each_part_s_reward_is_logged_where_it_has_rollouts(mixed: RunPaths) -> None:
    for line in metrics(mixed):
        parts = {name: line[f"share_of_{name}"] for name in ("long", "short")}
        rewards = {name: line.get(f"reward_of_{name}") for name in parts}
        assert {name for name, share in parts.items() if share} == {
            name for name, reward in rewards.items() if reward is not None
        }
        whole = sum(share * (rewards[name] or 0) for name, share in parts.items())
        assert whole == pytest.approx(line["reward"], abs=1e-6)


def test_the_parts_records_are_those_of_such_sets_and_the_main_one_is_theirs_together(
    mixed: RunPaths,
) -> None:
    for record in read_records(mixed.records).records:
        parts = [record.sets["long"], record.sets["short"]]
        assert record.successes == (*parts[0].successes, *parts[1].successes)
        mean = sum(part.completion_tokens or 0 for part in parts) / 2
        assert record.completion_tokens == pytest.approx(mean)


def test_a_part_is_recorded_as_a_set_of_its_problems_would_be(tmp_path: Path) -> None:
    # The limit is the mixture's.
    four = "four:{task:{max_completion_tokens:7,sort:{levels:[4]},num_eval_problems:16}}"
    specs = spec_of(f"evaluation.sets={{{four}}}"), spec_of("task=sort_mix")
    sets, run = (trained(spec, tmp_path, attempts=[(8e8,)]) for spec in specs)
    both = reproducible(sets)[0], reproducible(run)[0]
    # Before training: afterwards the policies are others.
    assert both[0]["sets"]["four"] == both[1]["sets"]["short"]


def test_a_reward_that_falls_because_harder_problems_come_is_no_collapse() -> None:
    health = make_config().health
    assert judged_health(spec_of(*MIXED), health).collapse_share is None
    assert judged_health(spec_of("task=sort_mix"), health) == health
    assert judged_health(spec_of(), health) == health


def drawn(spec: RunSpec, count: int) -> list[str]:
    from isosweep.training.grpo import make_stream

    problems, stream = training_problems(spec.task), make_stream(spec)
    steps = range(count // spec.problems_per_batch)
    return [problems[i].prompt for _ in steps for i in stream.draw(spec.problems_per_batch)]


def test_runs_that_differ_in_n_and_b_see_the_same_problems_in_the_same_order() -> None:
    first = drawn(spec_of(*MIXED), 160)
    assert drawn(spec_of(*MIXED, n=16), 160) == first
    assert drawn(spec_of(*MIXED, batch=32), 160) == first


def test_training_problems_say_whose_they_are_in_the_streams_order() -> None:
    problems = training_problems(spec_of("task=sort_mix").task)
    parts = [problem.part for problem in problems if isinstance(problem, PartProblem)]
    assert parts == ["long"] * 32 + ["short"] * 32
