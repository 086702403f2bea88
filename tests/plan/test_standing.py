"""What a plan finds on disk: new runs, runs to extend, runs that are done."""

import os
import socket
import time
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import standing
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunStatus, write_state
from tests.conftest import make_config, plan_of


def test_runs_are_told_apart_by_how_far_they_are(tmp_path: Path) -> None:
    plan = plan_of(make_config("budget=[1e11,2e11]", "grid.num_generations=[2,4]"))
    runs = [run for run in plan.runs if run.milestones[-1] == 2e11][:5]
    untouched, claimed, half, full, collapsed = runs

    def paths(run_id: str) -> RunPaths:
        return RunPaths(tmp_path / run_id)

    found_on_disk: tuple[tuple[PlannedRun, RunStatus, int, float], ...] = (
        (claimed, "finished", 0, 0.0),
        (half, "finished", 100, 1e11),
        (full, "finished", 200, 2e11),
        (collapsed, "diverged", 50, 5e10),
    )
    for run, status, generations, flops in found_on_disk:
        paths(run.run_id).root.mkdir()
        state = RunState(
            status=status,
            attempt=1,
            host=socket.gethostname(),
            pid=os.getpid(),
            job_id=None,
            step=generations,
            compute=Compute(generations=generations, training_flops=flops),
            reward=None,
            reason=None,
            updated=time.time(),
            diverged_by="collapse" if status == "diverged" else None,
        )
        write_state(paths(run.run_id), state)
    found = standing(plan, paths, ["collapse"])
    assert {untouched.run_id, claimed.run_id} <= set(found.new)
    assert found.extended == (half.run_id,)
    assert found.done == (full.run_id,)
    total = sum(run.milestones[-1] for run in plan.runs)
    assert found.diverged == (collapsed.run_id,)
    # Nothing is spent any more on what has diverged.
    assert found.left == pytest.approx(1 - 5e11 / total)
    told = f"runs: {len(plan.runs) - 3} new, 1 to extend, 1 done, 1 diverged; "
    assert found.described().startswith(told)
    # Where its rule no longer ends runs it is to be extended.
    again = standing(plan, paths, ["non_finite"])
    assert set(again.extended) == {half.run_id, collapsed.run_id}
    assert again.left == pytest.approx(1 - 3.5e11 / total)
    assert "diverged" not in again.described()
