"""What the terminal shows of runs that go wrong."""

import io
import os
import socket
import time
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from isosweep.compute import Compute
from isosweep.modes.display import show_plan, show_status
from isosweep.modes.display_progress import Progress
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import PlanStanding
from isosweep.store.paths import SweepPaths
from isosweep.store.state import RunState, RunStatus, write_state
from tests.conftest import make_config, plan_of


@cache
def small_plan() -> Plan:
    return plan_of(make_config("budget=1e11", "grid.num_generations=[2,4]", "grid.seeds=[0]"))


def report(paths: SweepPaths, run: PlannedRun, status: RunStatus, flops: float) -> None:
    """A run that breaks a rule, and has ended by one if it has diverged."""
    paths.run(run.run_id).root.mkdir(parents=True)
    state = RunState(
        status=status,
        attempt=1,
        host=socket.gethostname(),
        pid=os.getpid(),
        job_id=None,
        step=10,
        compute=Compute(generations=10, training_flops=flops),
        reward=0.1,
        reason="collapse at step 10: reward 0" if status == "diverged" else None,
        updated=time.time(),
        warnings=("truncation",),
        diverged_by="collapse" if status == "diverged" else None,
    )
    write_state(paths.run(run.run_id), state)


def drawn(plan: Plan, paths: SweepPaths, stop: list[str]) -> str:
    """The progress display of a terminal, with the plan's first run active."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=200, color_system=None)
    with Progress(plan, paths, stop, console) as progress:
        progress.update([plan.runs[0]], 0)
    return text.getvalue()


def test_progress_shows_warnings_and_counts_what_has_diverged_as_ended(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    going, ended = small_plan().runs[:2]
    report(paths, going, "running", 2e10)
    report(paths, ended, "diverged", 2e10)
    total = len(small_plan().runs)
    text = drawn(small_plan(), paths, ["collapse"])
    assert "truncation" in text
    assert f"1/{total} runs, {1.2 / total:.0%} of the compute" in text
    assert ", 1 diverged, 2 with warnings" in text
    # By other rules it has as much left to spend as the other.
    text = drawn(small_plan(), paths, [])
    assert f"0/{total} runs, {0.4 / total:.0%} of the compute" in text
    assert "diverged" not in text


def test_status_shows_why_a_run_ended_or_what_it_is_warned_of(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    report(paths, small_plan().runs[0], "running", 2e10)
    report(paths, small_plan().runs[1], "diverged", 2e10)

    def shown(stop: list[str]) -> list[str]:
        text = io.StringIO()
        show_status(small_plan(), paths, stop, Console(file=text, width=200))
        return text.getvalue().splitlines()

    lines = shown(["collapse"])
    assert any("running" in line and "truncation" in line for line in lines)
    assert any("diverged" in line and "collapse at step 10: reward 0" in line for line in lines)
    assert any("to extend" in line and "collapse at step 10" in line for line in shown([]))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ("budget=1e11", "grid.seeds=[0]"),
            "takes at least 3 budgets with 3 or more n (here 1) and 2 seeds (here 1), "
            "e.g. budget=logspace:1e+10:1e+11:3 grid.seeds=[0,1]",
        ),
        (("grid.seeds=[3]",), "takes at least 2 seeds (here 1), e.g. grid.seeds=[0,1]"),
        (("grid.num_generations=[2,4]",), "takes at least 3 budgets with 3 or more n (here 0);"),
        ((), None),
    ],
)
def test_a_plan_that_can_come_to_no_verdict_is_told_so(
    overrides: tuple[str, ...], said: str | None
) -> None:
    config = make_config(*overrides)
    plan = plan_of(config)
    text = io.StringIO()
    nothing = PlanStanding(runs={}, left=1.0)
    show_plan(plan, config, nothing, None, Console(file=text, width=200))
    assert ("a verdict on saturation" in text.getvalue()) == (said is not None)
    assert said is None or said in text.getvalue()
