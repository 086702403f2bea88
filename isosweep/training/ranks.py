"""One run on several devices: a process for each, those of a node started and stopped together."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

# How long ranks that are asked to stop may take to finish a step and write a checkpoint.
STOP_GRACE_S = 600.0
_POLL_S = 0.2
# By what torch's launcher, and `Group.place`, tell a process its place.
PLACE = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK")

T = TypeVar("T")


@dataclass(frozen=True)
class Rank:
    """A process's place among those of its run, alone if it is not said. Rank 0 decides and writes,
    the others compute.

    `local`: how many there are on its node. `pid`: the process that represents the run, and passes
    signals on.
    """

    number: int = 0
    count: int = 1
    local: int = 1
    pid: int = field(default_factory=os.getpid)

    @property
    def leads(self) -> bool:
        """Whether this process writes the run's files."""
        return self.number == 0

    def agree(self, value: T) -> T:
        """What rank 0 thinks `value` is; to be called by all ranks."""
        if self.count == 1:
            return value
        from accelerate.utils import broadcast_object_list

        agreed: T = broadcast_object_list([value], from_process=0)[0]
        return agreed


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


@dataclass(frozen=True, kw_only=True)
class Group:
    """Ranks of one node: `count` of `world`, from number `first`, and where all of them meet."""

    count: int
    world: int
    first: int
    address: str
    port: int

    @staticmethod
    def alone(count: int) -> "Group":
        """All ranks of a run, on this node."""
        return Group(count=count, world=count, first=0, address="127.0.0.1", port=free_port())

    def place(self, local: int) -> dict[str, str]:
        """The variables by which the `local`-th process finds the others."""
        sizes = self.world, self.count
        values = (self.address, self.port, *sizes, self.first + local, local)
        return dict(zip(PLACE, map(str, values), strict=True))


class Ranks:
    """`python *arguments` in the processes of a node that share a run."""

    def __init__(self, group: Group, arguments: list[str]) -> None:
        self._group, self._arguments = group, arguments
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self, asked: Callable[[], signal.Signals | None]) -> list[int]:
        """Run them; their exit statuses.

        The signal that `asked` once gives is sent to the first, if that is rank 0. When one ends in
        failure the others, which would wait for it in vain, are ended; and where `asked` raises.
        """
        group = self._group
        sent: float | None = None
        try:
            for local in range(group.count):
                environment = {**os.environ, **group.place(local)}
                command = [sys.executable, *self._arguments]
                self._processes.append(subprocess.Popen(command, env=environment))
            while any(process.poll() is None for process in self._processes):
                if any(process.poll() for process in self._processes):
                    break
                number = asked()
                if number is not None and sent is None:
                    sent = time.monotonic()
                    if group.first == 0:
                        self._processes[0].send_signal(number)
                if sent is not None and time.monotonic() - sent > STOP_GRACE_S:
                    break
                time.sleep(_POLL_S)
        finally:
            self.kill()
        return [process.returncode for process in self._processes]

    def kill(self) -> None:
        """End those that are left, at once."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens at now; of all interfaces where `host` is empty."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        return port
