"""The nodes of one attempt: where its first says to meet, and what each says of itself.

    nodes/<attempt>.0.json  <attempt>.1.json  ...

A node's process claims its file, and writes it anew while it lives: a beat that is counted up, the
signal that came to it, how its ranks ended. No clock is compared, and a file system that is away
lets nobody be taken for gone.
"""

import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from isosweep.errors import IsosweepError
from isosweep.files import JsonObject, create_json, names, read_json, write_json
from isosweep.job import Place
from isosweep.store.attempts import Attempt
from isosweep.training.ranks import free_port
from isosweep.training.stopping import StopRequest

# Between two looks at the others' files.
LOOK_S = 2.0
# Of a node that has said nothing for so long, in looks that were answered, the process is gone.
SILENT_S = 120.0
# Nodes of one job begin together, but for what an administrator's prolog does on one of them.
MEET_S = 600.0
# Looks after which it is told whether a node still beats.
_BEATS = 5
# A node's ranks that outlive the attempt wait for others that are gone.
_END_S = 60.0


class NodesError(IsosweepError):
    """A node has failed, or has not come: the attempt cannot go on without it."""

    exit_status = 1


class PlaceTakenError(NodesError):
    """Another process of this node has its part in the attempt."""


class NodeGoneError(NodesError):
    """A node says nothing any more: its machine may be down, which its scheduler will see."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a node's file says. `ended`: exit statuses of its ranks, None while they run.

    Of the first node: which `start` of which job it is, where its first rank listens, by the host's
    name or by its `address`, and the `work` of all ranks.
    """

    host: str
    beat: int = 0
    signal: int | None = None
    ended: tuple[int, ...] | None = None
    start: str = ""
    address: str = ""
    port: int = 0
    work: JsonObject = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "Said | None":
        """What lies there; None where it cannot be read now."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            document: dict[str, Any] = read_json(path) or {}
            ended = document.pop("ended")
            return Said(**document, ended=None if ended is None else tuple(ended))
        return None


class Nodes:
    """The nodes of an attempt, as the process of one of them sees them."""

    def __init__(self, attempt: Attempt, place: Place, said: Said, first: Said) -> None:
        """`said`: of this node, `first`: of the first."""
        self._attempt, self.place, self.said, self.first = attempt, place, said, first
        self._others: dict[int, Said] = {}
        self._silent: dict[int, float] = {}
        self._looked = time.monotonic()

    @staticmethod
    def open(attempt: Attempt, place: Place, start: str, work: JsonObject) -> "Nodes":
        """The first node's, which says where to meet. `work`: what each rank is started with."""
        said = Said(
            host=socket.gethostname(),
            start=start,
            address=_address(),
            port=free_port("" if place.nodes > 1 else "127.0.0.1"),
            work=work,
        )
        nodes = Nodes(attempt, place, said, said)
        if place.nodes > 1:
            create_json(nodes._file(place.node), asdict(said))
        return nodes

    @staticmethod
    def join(attempt: Attempt, place: Place, start: str) -> "Nodes | None":
        """Those of `attempt`, if its first node is of the same start of the same job, and lives; to
        be asked again otherwise. Raises PlaceTakenError where somebody has this node's place."""
        file = _file(attempt, 0)
        # Listed first: a network file system may remember that a file was absent.
        first = Said.read(file) if file.name in names(file.parent) else None
        if first is None or first.start != start or first.ended is not None:
            return None
        for _ in range(3):
            time.sleep(LOOK_S)
            now = Said.read(file)
            if now is not None and now.ended is None and now.beat > first.beat:
                own, mine = Said(host=socket.gethostname()), _file(attempt, place.node)
                if create_json(mine, asdict(own)):
                    return Nodes(attempt, place, own, now)
                by = Said.read(mine)
                where = f" on {by.host}" if by else ""
                raise PlaceTakenError(
                    f"node {place.node} of {place.nodes} already has a process{where} in attempt "
                    f"{attempt.number}: a job starts one process a node"
                )
        return None

    def say(self, **changes: Any) -> None:
        """Write this node's file anew. A file system that is away takes nothing."""
        self.said = replace(self.said, beat=self.said.beat + 1, **changes)
        if self.place.nodes > 1:
            with suppress(OSError):
                write_json(self._file(self.place.node), asdict(self.said))

    def wait_for_all(self, ask: Callable[[], None], stop: StopRequest) -> bool:
        """Whether every node came before anything stopped this one. `ask`: looks for what does.

        Raises NodesError where one does not come in time.
        """
        deadline = time.monotonic() + MEET_S
        while self.place.nodes > 1:
            here = names(self._attempt.run.nodes)
            missing = [n for n in range(self.place.nodes) if self._file(n).name not in here]
            if not missing:
                return True
            ask()
            if stop.reason is not None or stop.overtaken is not None:
                return False
            if time.monotonic() > deadline:
                raise NodesError(f"node {missing[0]} has not come within {MEET_S:g} s")
            self.say()
            time.sleep(LOOK_S)
        return True

    def look(self) -> None:
        """Beat, and read what the others say; at most every LOOK_S seconds.

        Raises NodesError where one of them has failed, or is gone, and OvertakenError.
        """
        if self.place.nodes == 1 or time.monotonic() - self._looked < LOOK_S:
            return
        with suppress(OSError):
            self._attempt.check()
        self._hear()
        for node, said in self._others.items():
            if said.ended is None and self._silent[node] > SILENT_S:
                raise NodeGoneError(f"{_named(node, said)} has been silent for {SILENT_S:g} s")
            if said.ended is not None and any(said.ended):
                raise NodesError(_failed(node, said))
            # What is done last, as a checkpoint that is being written, the first does alone.
            if said.ended is not None and node == 0 and self._silent[node] > _END_S:
                raise NodesError(f"{_named(node, said)} has ended")

    def why_failed(self) -> tuple[str | None, str]:
        """After processes of this node have failed: which other node is gone, which is why; else
        one says that its own have failed. Takes the time that this cannot be told."""
        for _ in range(_BEATS if self.place.nodes > 1 else 0):
            time.sleep(LOOK_S)
            self._hear()
        gone = [
            _named(node, said)
            for node, said in self._others.items()
            if said.ended is None and self._silent[node] >= (_BEATS - 1) * LOOK_S
        ]
        failed = [
            f"; {_failed(node, said)}"
            for node, said in self._others.items()
            if said.ended is not None and any(said.ended)
        ]
        return (f"{gone[0]} is gone" if gone else None), "".join(failed[:1])

    def _hear(self) -> None:
        """Beat, and read what the others say. The first hears all, and all hear the first: of many
        nodes each would read many files."""
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        self.say()
        for node in range(1, self.place.nodes) if self.place.leads else (0,):
            if (said := Said.read(self._file(node))) is None:
                continue
            before = self._others.get(node)
            quiet = before is not None and before.beat == said.beat
            # A look that took long was not answered for as long.
            silent = self._silent.get(node, 0.0) + min(passed, 2 * LOOK_S) if quiet else 0.0
            self._silent[node], self._others[node] = silent, said

    def asked(self, stop: StopRequest) -> signal.Signals | None:
        """Which signal came, to this node or to another, once it has looked at these. All nodes
        have it from then on."""
        self.look()
        came = next((said.signal for said in self._others.values() if said.signal), None)
        if came is not None and not stop.signals:
            stop.came(came)
        own = next(iter(stop.signals), None)
        if own is not None and self.said.signal is None:
            self.say(signal=int(own))
        return own

    def _file(self, node: int) -> Path:
        return _file(self._attempt, node)


def _named(node: int, said: Said) -> str:
    return f"node {node} ({said.host})"


def _failed(node: int, said: Said) -> str:
    statuses = ", ".join(map(str, said.ended or ()))
    return f"{_named(node, said)} ended its processes with status {statuses}"


def _file(attempt: Attempt, node: int) -> Path:
    return attempt.run.nodes / f"{attempt.number}.{node}.json"


def _address() -> str:
    """The number of the interface that leads away from this machine; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route, suppress(OSError):
        route.connect(("192.0.2.1", 9))
        address: str = route.getsockname()[0]
        return address
    return "127.0.0.1"


def reachable(first: Said) -> str:
    """How this machine calls the first node: by its name where that is known here."""
    if first.host == socket.gethostname():
        return "127.0.0.1"
    try:
        socket.getaddrinfo(first.host, first.port)
    except OSError:
        return first.address
    return first.host
