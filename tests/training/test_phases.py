"""Runs whose n, B and learning rate change at amounts of compute that they have spent."""

import os
import signal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.axes import combinations
from isosweep.config.health import HealthConfig
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import make_plan
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_records
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import wait_for
from tests.training.builders import OFTEN, exit_status, in_a_process, metrics, prepared, trained

pytestmark = pytest.mark.train

BUDGETS = (2e9, 6e9)
MILESTONES = (7e8, *BUDGETS)
GROWTH = (
    "recipe.schedule={num_generations:{1e9:6,4e9:4},problems_per_batch:{2e9:8},"
    "learning_rate:{from:1e9,times:0.5,every:3,to:1e-4}}"
)
SMALL = (
    "grid.num_generations=[4]",
    "grid.problems_per_batch=[4]",
    "grid.seeds=[0]",
    "grid.tolerance=0.2",
    "grid.min_steps=1",
    "evaluation.records_per_decade=1",
    "recipe.micro_batch=8",
    "task.num_eval_problems=16",
    "evaluation.samples_per_problem=2",
    f"budget=[{BUDGETS[0]},{BUDGETS[1]}]",
)


def planned(*overrides: str) -> tuple[Plan, RunSpec]:
    config = make_config(*SMALL, *overrides)
    plan, specs = make_plan(config, enumerate_candidates(combinations(config)))
    (spec,) = specs.values()
    return plan, spec


def records(run: RunPaths) -> list[dict[str, Any]]:
    """Of each record what a second execution repeats."""
    return [
        {
            "step": record.step,
            "successes": record.successes,
            "compute": {k: v for k, v in vars(record.compute).items() if "seconds" not in k},
        }
        for record in read_records(run.records).records
    ]


def test_a_run_that_is_extended_is_the_one_that_was_planned_so(tmp_path: Path) -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    plan, spec = planned(GROWTH)
    rates: list[float] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    straight = trained(spec, tmp_path / "straight", MILESTONES)
    hook.remove()
    assert rates == pytest.approx([1e-4, 2e-4, *[3e-4] * 2, *[1.5e-4] * 4, *[1e-4] * 5])
    assert [step["learning_rate"] for step in metrics(straight)] == rates
    extended = trained(spec, tmp_path / "extended", MILESTONES[:1], MILESTONES[:2], MILESTONES)
    assert records(extended) == records(straight)
    assert metrics(extended) == metrics(straight)
    kept = read_records(straight.records).records
    # There is a record at every change.
    assert {spec.phase_at(record.compute) for record in kept} == {0, 1, 2, 3, 4}
    for cell in plan.cells:
        there = next(record for record in kept if record.step == cell.num_steps)
        # The built-in task's answers are a little shorter than planned before they are learnt.
        assert there.compute.flops == pytest.approx(cell.planned_compute, rel=0.03)
    sizes = [
        (b.compute.rollouts - a.compute.rollouts) / (b.step - a.step) for a, b in pairwise(kept)
    ]
    assert list(dict.fromkeys(sizes)) == [16, 24, 48, 32]


def test_a_run_is_the_unscheduled_one_up_to_its_first_change(tmp_path: Path) -> None:
    _, spec = planned(GROWTH)
    _, plain = planned()
    assert plain.phases is None
    scheduled = trained(spec, tmp_path, BUDGETS[:1])
    unscheduled = trained(plain, tmp_path, BUDGETS[:1])
    first = [line for line in records(scheduled) if line["step"] <= 4]
    assert first == [line for line in records(unscheduled) if line["step"] <= 4]
    assert metrics(scheduled)[:4] == metrics(unscheduled)[:4]
    assert metrics(scheduled)[4] != metrics(unscheduled)[4]


def test_rollouts_are_those_of_the_plan_exactly(tmp_path: Path) -> None:
    growth = "recipe.schedule={num_generations:{from:64,times:2,every:2,to:16}}"
    plan, spec = planned(growth, "budget_unit=rollouts", "budget=[512]")
    run = trained(spec, tmp_path, [512], unit="rollouts")
    last = read_records(run.records).records[-1]
    (cell,) = plan.cells
    assert (last.step, last.compute.rollouts) == (cell.num_steps, cell.planned_compute)


@pytest.mark.slow
def test_a_run_killed_at_ten_points_is_the_one_that_was_not(tmp_path: Path) -> None:
    _, spec = planned(GROWTH, "evaluation.records_per_decade=20")
    straight = trained(spec, tmp_path / "straight", BUDGETS)
    killed = prepared(spec, tmp_path / "killed")
    job = TrainRun(str(killed.root), BUDGETS, "flops", HealthConfig(), OFTEN)
    for attempt in range(1, 11):
        process = in_a_process(job)
        wait_for(partial(complete_checkpoints, killed.attempt_checkpoints(attempt)))
        os.kill(process, signal.SIGKILL)
        assert exit_status(process) == -signal.SIGKILL
    assert exit_status(in_a_process(job)) == 0
    assert len(list(killed.attempts.iterdir())) == 11
    assert records(killed) == records(straight)
    assert metrics(killed) == metrics(straight)
