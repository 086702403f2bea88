"""A job asks Slurm to put it into the queue again."""

import subprocess
import time

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
        try:
            answer = subprocess.run(
                ["scontrol", "requeue", job_id],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if answer.returncode == 0:
            return None
        said = " ".join((answer.stderr or answer.stdout).split())
    return f"scontrol requeue {job_id}: {said}"
