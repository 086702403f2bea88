"""The processes of one run: one a device, started by srun, or by the run's worker."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from isosweep.store.attempts import Attempt, Status, read
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.stopping import StopRequest

# Tasks of one job begin together, but for what an administrator's prolog does on one of the nodes.
MEET_S = 600.0
# How long one process may wait for another: longer than the first writes a checkpoint of a terabyte
# at 0.1 GB/s. A run that hangs is ended by who follows it (`launcher.stuck_after`).
COLLECTIVE_S = 6 * 3600
_POLL_S = 0.2
# Ports below those that Linux gives to outgoing connections (ip_local_port_range).
_FIRST_PORT, _PORTS = 10_000, 22_000

# Names, in the environment of a rank that `run_ranks` has started, the process that did.
_PARENT = "ISOSWEEP_PARENT"

T = TypeVar("T")


class RanksError(Exception):
    """The processes of an attempt have failed, and have said how."""


@dataclass(frozen=True)
class Rank:
    """A process's place among those of its run, by default alone. Rank 0 decides and writes, the
    others compute.

    `per_node`: how many there are on its node. `started_by_worker`: by `run_ranks`, of the process
    that has begun the attempt.
    """

    number: int = 0
    count: int = 1
    per_node: int = 1
    started_by_worker: bool = False

    @property
    def leads(self) -> bool:
        """Whether this process writes the run's files."""
        return self.number == 0

    def agree(self, value: T) -> T:
        """What rank 0 thinks `value` is; to be called by all ranks."""
        if self.count == 1:
            return value
        from torch.distributed import broadcast_object_list

        agreed = [value]
        broadcast_object_list(agreed, src=0)
        return agreed[0]


def find_rank(launcher: str) -> Rank:
    """This process's rank among those of its run, started by `run_ranks` or, of a job of Slurm, by
    srun; torch's variables then say where they meet.

    What a user's environment says of ranks, or of precision, is forgotten.
    """
    parent = os.getppid()
    if os.environ.get(_PARENT) == str(parent):
        end_with(parent)
        count = int(os.environ["WORLD_SIZE"])
        return Rank(int(os.environ["RANK"]), count, count, started_by_worker=True)
    forget_ranks_and_precision(os.environ)
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1") if launcher == "slurm" else "1"
    return Rank() if tasks == "1" else _rank_of_task(os.environ)


def _rank_of_task(variables: MutableMapping[str, str]) -> Rank:
    from submitit.helpers import TorchDistributedEnvironment

    # Another one for each job, and for each start of it: what an earlier start has left on a node
    # is not met.
    start = 10 * int(variables["SLURM_JOB_ID"]) + int(variables.get("SLURM_RESTART_COUNT") or 0)
    variables["MASTER_PORT"] = str(_FIRST_PORT + start % _PORTS)
    variables["SUBMITIT_EXECUTOR"] = "slurm"
    found = TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    try:
        socket.getaddrinfo(found.master_addr, found.master_port)
    except OSError:
        # A node's name need not be its host's. srun runs on the first node of the job.
        variables["MASTER_ADDR"] = variables["SLURM_LAUNCH_NODE_IPADDR"]
    return Rank(found.rank, found.world_size, found.local_world_size)


def join(rank: Rank, device: str) -> None:
    """Meet the other ranks of the run; to be called by all of them, once.

    Raises torch's DistError where one does not come in time.
    """
    from torch import distributed

    store = distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        rank.count,
        rank.leads,
        timedelta(seconds=MEET_S),
        multi_tenant=True,
    )
    patience = timedelta(seconds=COLLECTIVE_S)
    store.set_timeout(patience)
    distributed.init_process_group(
        # What ranks agree on goes by gloo.
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank.number,
        world_size=rank.count,
        timeout=patience,
    )


def start_ranks(attempt: Attempt, count: int, stop: StopRequest) -> Status | None:
    """Make the attempt in `count` processes of this machine; this one passes signals on, and speaks
    for those that ended without a word. Raises RanksError where they fail."""
    # Rank 0 decides what a second signal means.
    stop.patient = True
    arguments = ["-u", "-P", "-m", "isosweep.training", str(attempt.path)]
    statuses = run_ranks(count, arguments, stop.signals)
    stop.read_requests(attempt)
    if stop.overtaken is not None:
        return None
    last = read(attempt.run, attempt.number)
    if last.status is Status.RUNNING:
        reason = f"its processes ended with status {', '.join(map(str, statuses))}"
        how = (stop.ending, stop.reason) if stop.reason else (Status.FAILED, reason)
        last = replace(last, status=how[0], reason=how[1])
        sys.stderr.write(f"isosweep: {last.status}: {last.reason}\n")
        last.write()
    if last.status in (Status.FAILED, Status.REFUSED):
        raise RanksError(last.reason)
    return last.status


def run_ranks(count: int, arguments: Sequence[str], signals: Sequence[signal.Signals]) -> list[int]:
    """Run `python *arguments` in `count` processes of this machine; their exit statuses.

    What comes into `signals` meanwhile is sent to rank 0. When one fails the others, which would
    wait for it in vain, are ended.
    """
    alike = {
        _PARENT: str(os.getpid()),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    processes: list[subprocess.Popen[bytes]] = []
    sent = 0
    try:
        for number in range(count):
            own = {"RANK": str(number), "LOCAL_RANK": str(number)}
            environment = {**os.environ, **alike, **own}
            processes.append(subprocess.Popen([sys.executable, *arguments], env=environment))
        while None in (statuses := [process.poll() for process in processes]):
            if any(statuses):
                break
            for came in signals[sent:]:
                sent += 1
                processes[0].send_signal(came)
            time.sleep(_POLL_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes]


def end_with(parent: int) -> None:
    """End this process soon after `parent`, which started it, is gone, however that was killed.

    Nobody else would end it: on a GPU the ranks of a run wait for each other, hold its memory, and
    the run's next attempt is begun beside them.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens at now; of all interfaces where `host` is empty."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port
