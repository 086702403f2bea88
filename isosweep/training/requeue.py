"""A job asks Slurm to put it into the queue again."""

import time

from isosweep.commands import call

_TIMEOUT_S = 30.0
# A controller that is busy or restarting answers after seconds to minutes; the time limit comes
# some minutes after the signal.
_PAUSES_S = (0.0, 2.0, 10.0)


def requeue(job_id: str) -> str | None:
    """Have Slurm requeue the job `job_id`, which may be this one; Slurm's words where it did not.

    It then ends the job's processes, this one among them.
    """
    said = ""
    for pause in _PAUSES_S:
        time.sleep(pause)
        answer = call(["scontrol", "requeue", job_id], _TIMEOUT_S)
        if answer.failure is None:
            return None
        said = answer.failure
    return f"scontrol requeue {job_id}: {said}"
