"""What a scheduler tells a worker of its job, and is asked by it: all that workers know of one."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from isosweep.commands import call
from isosweep.errors import SettingError

_TIMEOUT_S = 30.0
# A controller that is busy or restarting answers after seconds to minutes; the time limit comes
# some minutes after the signal.
_PAUSES_S = (0.0, 2.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node among those of its job, from 0, which leads."""

    node: int = 0
    nodes: int = 1

    @property
    def leads(self) -> bool:
        """Whether this node's process speaks for the run."""
        return self.node == 0


@dataclass(frozen=True, kw_only=True)
class Task:
    """A process as its scheduler knows it; by default nothing does.

    `job_id`: None where the process itself is all that can be named. `start` is the same for all
    processes that were started together, and for no others, where the scheduler tells it.
    `requeues`: whether the job may be started again.
    """

    job_id: str | None = None
    start: str = ""
    place: Place = Place()
    requeues: bool = False


def task_of(launcher: str) -> Task:
    """This process, which `launcher` started. Raises SettingError for a node that is
    not told which it is.

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
    own = variables["SLURM_JOB_ID"]
    array, index = (variables.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    return Task(
        job_id=f"{array}_{index}" if array and index else own,
        start=f"{own}.{variables.get('SLURM_RESTART_COUNT', '0')}",
        place=_place(variables),
        requeues=True,
    )


def _place(variables: Mapping[str, str]) -> Place:
    number, count = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"
    nodes = variables.get(count) or "1"
    node = variables.get(number) or ("0" if nodes == "1" else "")
    if not nodes.isdecimal() or not node.isdecimal() or int(node) >= int(nodes):
        rule = f"numbers the {nodes} nodes of a job from 0, and {count}={nodes}"
        raise SettingError(number, node, rule)
    return Place(node=int(node), nodes=int(nodes))
