"""What goes wrong on a cluster, done on purpose. What a block does is undone at its end."""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.runs import wait_for
from tests.slurm.cluster import SlurmCluster

# Many times what Slurm needs to notice anything that is waited for here.
PATIENCE_S = 90.0
# The user, neither root nor in any of root's groups, whom every Debian has.
SECOND_USER = "nobody"


@contextlib.contextmanager
def ended(cluster: SlurmCluster, *daemons: str, kill: bool = False) -> Iterator[None]:
    """`daemons` are not there; `kill`: they went without a warning."""
    for name in daemons:
        cluster.end(name, kill=kill)
    try:
        yield
    finally:
        for name in reversed(daemons):
            cluster.restart(name)


def wait_for_nodes(cluster: SlurmCluster) -> None:
    """Return once no node is down, nor about to be."""

    def up() -> bool:
        states = cluster.run("sinfo", "-h", "-N", "-o", "%t").split()
        return all(state in ("idle", "mix", "alloc", "comp") for state in states)

    wait_for(up, PATIENCE_S, 0.2)


def nodes_of(cluster: SlurmCluster, job_id: str) -> list[str]:
    """The nodes that the job runs on, that of its first task first."""
    names = cluster.run("squeue", "-h", "-o", "%N", "-j", job_id)
    return cluster.run("scontrol", "show", "hostnames", names).split()


def node_processes(cluster: SlurmCluster, node: str, words: str = "") -> list[int]:
    """Processes of all jobs on a node of this cluster whose command line has `words`."""
    asked = {f"SLURM_CONF={cluster.conf_path}".encode(), f"SLURMD_NODENAME={node}".encode()}
    return [pid for pid, _ in _processes(asked, words)]


def node_lost(cluster: SlurmCluster, node: str) -> None:
    """The node's jobs are gone at once, with the daemons of their steps, which would tell; its
    slurmd has to be gone already."""
    tasks = node_processes(cluster, node)
    daemons = {pid for pid, _ in _processes(set(), "slurmstepd")}
    above = [parent for pid in tasks if (parent := _parent(pid)) in daemons]
    kill_processes([*above, *tasks])


def kill_processes(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Send the signal to those of `pids` that still are."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def as_second_user(cluster: SlurmCluster, home: Path) -> tuple[list[str], dict[str, str]]:
    """What precedes a command of another user, and the environment for it; `home` is his.

    He may read what root may, where this checkout or its interpreter lies too, but not write.
    """
    home.mkdir(exist_ok=True)
    shutil.chown(home, SECOND_USER)
    capability = "+dac_read_search"
    become = (f"--reuid={SECOND_USER}", "--regid=nogroup", "--clear-groups")
    keep = (f"--inh-caps={capability}", f"--ambient-caps={capability}")
    environment = os.environ | cluster.environment | {"HOME": str(home)}
    return ["setpriv", *become, *keep], environment


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        # The name, in brackets, may have blanks (proc_pid_stat(5)).
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _processes(marks: set[bytes], words: str) -> list[tuple[int, str]]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Processes may end while they are looked at.
        with contextlib.suppress(OSError):
            environment = set((process / "environ").read_bytes().split(b"\0"))
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if marks <= environment and words in line:
                found.append((int(process.name), line))
    return found
