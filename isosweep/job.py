"""What a scheduler tells a worker of its job, and is asked by it: all that workers know of one."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from isosweep.commands import call

_TIMEOUT_S = 30.0
# A controller that is busy or restarting answers after seconds to minutes; the time limit comes
# some minutes after the signal.
_PAUSES_S = (0.0, 2.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A process as its scheduler knows it; by default nothing does.

    `job_id`: None where the process itself is all that can be named. `requeues`: whether the job
    may be started again.
    """

    job_id: str | None = None
    requeues: bool = False


def task_of(launcher: str) -> Task:
    """This process, which `launcher` started.

    A local run in somebody's allocation has a job's number in its environment, not its own.
    """
    return _slurm(os.environ) if launcher == "slurm" else Task()


def requeue(job_id: str) -> str | None:
    """Have the scheduler start the job `job_id` again; its words where it does not.

    It then ends the job's processes, of which this may be one.
    """
    said = ""
    for pause in _PAUSES_S:
        time.sleep(pause)
        answer = call(["scontrol", "requeue", job_id], timeout_s=_TIMEOUT_S)
        if answer.failure is None:
            return None
        said = answer.failure
    return f"scontrol requeue {job_id}: {said}"


def _slurm(variables: Mapping[str, str]) -> Task:
    if "SLURM_JOB_ID" not in variables:
        return Task(requeues=True)
    array, index = (variables.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    own = f"{array}_{index}" if array and index else variables["SLURM_JOB_ID"]
    return Task(job_id=own, requeues=True)
