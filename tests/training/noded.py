"""Runs whose jobs have several nodes, with a task each, on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from isosweep.store.attempts import Attempt, Status
from isosweep.store.paths import RunPaths, complete_checkpoints
from tests.runs import wait_for
from tests.training.builders import submitted

# Longer than any of these runs takes on a machine that others use.
_LONG_S = 900.0


def tasks_of(attempt: Attempt, count: int) -> list[subprocess.Popen[bytes]]:
    """The tasks of the attempt's job, one a node, as srun starts them."""
    words = [sys.executable, "-P", "-m", "isosweep.training", str(attempt.path)]
    counts = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
    job = {
        # Another port than other tests have.
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "no-such-node-[1-2]",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": "0",
        **dict.fromkeys(counts, str(count)),
    }
    return [
        subprocess.Popen(words, env={**os.environ, **job, "SLURM_PROCID": str(number)})
        for number in range(count)
    ]


def worked(
    run: RunPaths, nodes: int, milestones: Sequence[float], *, killed: bool = False
) -> list[int]:
    """How the tasks of a job of so many nodes end, which takes the run to the milestones, in
    FLOPs, or is killed at its first checkpoint."""
    attempt = submitted(run, milestones, "slurm")
    tasks = tasks_of(attempt, nodes)
    try:
        if killed:
            own = run.attempt_checkpoints(attempt.number)
            wait_for(partial(complete_checkpoints, own), _LONG_S)
            for task in tasks:
                task.send_signal(signal.SIGKILL)
        return [task.wait(_LONG_S) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
        # Nobody else says so where rank 0 is killed.
        attempt.end(Status.FAILED, "killed")
