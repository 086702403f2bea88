"""What a scheduler tells a worker of its job, and is asked by it: all that workers know of one."""

import os
import time

from isosweep.commands import call

_TIMEOUT_S = 30.0
# A controller that is busy or restarting answers after seconds to minutes; the time limit comes
# some minutes after the signal.
_PAUSES_S = (0.0, 2.0, 10.0)


def scheduled_job(launcher: str) -> str | None:
    """The job of Slurm that this process is, which `launcher` started and which can be requeued;
    None where it is none.

    A local run in somebody's allocation has a job's number in its environment, not its own.
    """
    if launcher != "slurm":
        return None
    array, index = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    return f"{array}_{index}" if array and index else os.environ.get("SLURM_JOB_ID")


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
