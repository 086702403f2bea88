"""Runs whose jobs have several nodes, each of them a worker of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from isosweep.store.attempts import Attempt, Status
from isosweep.store.paths import RunPaths, complete_checkpoints
from tests.runs import wait_for
from tests.training.builders import submitted

# Longer than any of these runs takes on a machine that others use.
_LONG_S = 900.0


def begun(
    attempt: Attempt, nodes: int, more: Mapping[int, Mapping[str, str]]
) -> list[subprocess.Popen[bytes]]:
    """The worker of each node, with `more` in the environment of some."""
    words = [sys.executable, "-P", "-m", "isosweep.training", str(attempt.path)]
    workers = []
    for node in range(nodes):
        place = {"SLURM_PROCID": str(node), "SLURM_STEP_NUM_TASKS": str(nodes)}
        job = {"SLURM_JOB_ID": "1", **place}
        environment = {**os.environ, **job, **more.get(node, {})}
        workers.append(subprocess.Popen(words, env=environment))
    return workers


def worked(
    run: RunPaths,
    nodes: int,
    milestones: Sequence[float],
    *,
    killed: bool = False,
    more: Mapping[int, Mapping[str, str]] | None = None,
) -> list[int]:
    """How the workers of a job of so many nodes end, which takes the run to the milestones, in
    FLOPs, or is killed at its first checkpoint."""
    attempt = submitted(run, milestones, "slurm")
    workers = begun(attempt, nodes, more or {})
    try:
        if killed:
            own = run.attempt_checkpoints(attempt.number)
            wait_for(partial(complete_checkpoints, own), _LONG_S)
            for worker in workers:
                worker.send_signal(signal.SIGKILL)
        return [worker.wait(_LONG_S) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        # Nobody else says so where the first node is killed.
        attempt.end(Status.FAILED, "killed")
