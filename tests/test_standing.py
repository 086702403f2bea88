"""What a plan finds on disk: new runs, runs to extend, runs that are done."""

import os
import socket
import time
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.paths import RunPaths
from isosweep.plan import make_plan
from isosweep.standing import standing
from isosweep.state import RunState, write_state
from tests.conftest import make_config


def test_runs_are_told_apart_by_how_far_they_are(tmp_path: Path) -> None:
    plan = make_plan(make_config("budget=[1e11,2e11]", "grid.num_generations=[2,4]"))
    runs = [run for run in plan.runs if run.milestones[-1] == 2e11][:4]
    untouched, claimed, half, full = runs

    def paths(run_id: str) -> RunPaths:
        return RunPaths(tmp_path / run_id)

    for run, generations, flops in ((claimed, 0, 0.0), (half, 100, 1e11), (full, 200, 2e11)):
        paths(run.run_id).root.mkdir()
        state = RunState(
            status="finished",
            attempt=1,
            host=socket.gethostname(),
            pid=os.getpid(),
            job_id=None,
            step=generations,
            compute=Compute(generations=generations, training_flops=flops),
            reward=None,
            reason=None,
            updated=time.time(),
        )
        write_state(paths(run.run_id), state)
    found = standing(plan, paths, [])
    assert {untouched.run_id, claimed.run_id} <= set(found.new)
    assert found.extended == (half.run_id,)
    assert found.done == (full.run_id,)
    total = sum(run.milestones[-1] for run in plan.runs)
    assert found.left == pytest.approx(1 - 3e11 / total)
    assert found.described().startswith(f"runs: {len(plan.runs) - 2} new, 1 to extend, 1 done")
