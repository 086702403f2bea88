"""A real Slurm cluster of four nodes on this machine, for tests.

One `SlurmCluster` is munged, slurmctld and one slurmd per node, without accounting. They run as
root, in the foreground, as children of this process; all they write lies under one run directory,
and they listen only on ports that were free when the cluster started.

What is not real: the nodes share one host, so memory limits and device isolation are not enforced
(no cgroups), the configured CPUs may be more than the machine has, and GPUs are names of /dev/null.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from tests.slurm.configuration import GRES_CONF, SLURM_CONF

NODES = ("n1", "n2", "n3", "n4")
CPUS_PER_NODE = 8
GPUS_PER_NODE = 4
MEMORY_PER_NODE_MB = 16_000
# The first is the default; `short` has a limit of two minutes, `closed` takes jobs and starts none.
PARTITIONS = ("main", "high", "short", "closed")
# Whose jobs these are, by name: who runs the tests, and a second user.
USERS = ("root", "nobody")

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "sinfo", "squeue")
# Starts each daemon so that the kernel ends it if the tests are killed before they call stop().
SETPRIV = "setpriv"

START_TIMEOUT_S = 60.0
# How long a daemon may take from SIGTERM to its exit before it is killed.
STOP_GRACE_S = 20.0
# Longer than KillWait in slurm.conf, after which Slurm itself kills a cancelled job.
CANCEL_GRACE_S = 8.0
POLL_S = 0.05


class SlurmStartError(RuntimeError):
    """The cluster did not start; the message ends with the last lines of each daemon's log."""


def missing_parts() -> list[str]:
    """Names of what this machine lacks to run a `SlurmCluster`; empty if nothing."""
    missing = [name for name in (*DAEMONS, *COMMANDS, SETPRIV) if _find(name) is None]
    if os.geteuid() != 0:
        missing.append("root")
    return missing


class SlurmCluster:
    """The nodes `NODES` with GPUs, and the partitions `PARTITIONS`.

    Jobs of `high` preempt those of `main` and `short`, which are signalled and have 20 s.

    `run_dir` must exist, be empty, and have a short path, because unix sockets lie in it. It is
    left in place by `stop()`: NAME.log is what a daemon logs, with times, and NAME.out what it
    prints. Call `start()` from a thread that outlives the cluster, because the kernel ends the
    daemons with that thread; jobs that run then go on to their end.
    """

    def __init__(self, run_dir: Path, *, max_array_size: int = 101) -> None:
        """`max_array_size`: tasks that an array may have; 1001 by Slurm's default."""
        self._max_array_size = max_array_size
        self.run_dir = run_dir.resolve()
        self.conf_path = self.run_dir / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.conf_path)}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        self._deadline = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return once all nodes are idle; else raise `SlurmStartError`."""
        if missing := missing_parts():
            raise SlurmStartError(f"this machine lacks: {', '.join(missing)}")
        self._deadline = time.monotonic() + START_TIMEOUT_S
        try:
            self._start_daemons()
        except (OSError, subprocess.SubprocessError, SlurmStartError) as error:
            self.stop()
            raise SlurmStartError(f"{error}\n{self.log_tails()}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Cancel all jobs, then end every daemon and job process. May be called twice."""
        if self._is_alive("slurmctld"):
            self._cancel_jobs()
        # Each daemon before those that it talks to.
        self._end(name for name in self.daemons if name.startswith("slurmd-"))
        for name in ("slurmctld", "munged"):
            self._end([name])
        self._kill_leftovers()

    def end(self, name: str, *, kill: bool = False) -> None:
        """End slurmctld, munged or slurmd-NODE, `kill`: without a warning."""
        if kill:
            self.daemons[name].kill()
        self._end([name])

    def restart(self, name: str) -> None:
        """Start a daemon that has ended as it was started, and return once it answers."""
        self._deadline = time.monotonic() + START_TIMEOUT_S
        self._launch(name, *self._commands[name])
        if name == "slurmctld":
            self._wait_until("slurmctld answers", lambda: self.run("squeue", "-h") is not None)

    def run(self, *command: str, timeout_s: float = 30.0) -> str:
        """The output of a Slurm command, such as `run("sinfo", "-h")`, stripped.

        Raises `subprocess.CalledProcessError` if it fails, its text on stderr as a note.
        """
        try:
            done = subprocess.run(
                command,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=timeout_s,
            )
        except subprocess.CalledProcessError as error:
            error.add_note(str(error.stderr).strip())
            raise
        return done.stdout.strip()

    def log_tails(self) -> str:
        """The last lines that each program printed, under its file's name."""
        texts = {path: path.read_text(errors="replace") for path in self.run_dir.glob("*.out")}
        tails = ["\n".join([f"--- {p}", *t.splitlines()[-20:]]) for p, t in texts.items() if t]
        return "\n".join(tails) or f"nothing was printed in {self.run_dir}"

    def _start_daemons(self) -> None:
        ports = self._write_configuration()
        munge_socket = self.run_dir / "munge.sock"
        self._launch(
            "munged",
            _path("munged"),
            "--foreground",
            # Accept a socket in a directory that is not munged's own.
            "--force",
            f"--socket={munge_socket}",
            f"--key-file={self.run_dir / 'munge.key'}",
            f"--pid-file={self.run_dir / 'munged.pid'}",
            f"--seed-file={self.run_dir / 'munged.seed'}",
        )
        self._wait_until("munged has made its socket", munge_socket.exists)
        self._launch("slurmctld", _path("slurmctld"), "-D")
        self._wait_until("slurmctld listens", lambda: _is_listening(ports["slurmctld_port"]))
        for node in NODES:
            self._launch(f"slurmd-{node}", _path("slurmd"), "-D", "-N", node)
        self._wait_until("all nodes are idle", self._all_nodes_idle)

    def _write_configuration(self) -> dict[str, int]:
        """Write every configuration file and return the ports they name."""
        names = ["slurmctld_port", *NODES]
        ports = dict(zip(names, _free_ports(len(names)), strict=True))
        hostname = socket.gethostname().partition(".")[0]
        values = ports | {
            "run_dir": self.run_dir,
            "hostname": hostname,
            # submitit caches states by job id for a whole process, so each cluster has its own ids.
            "first_job_id": 1 + 1000 * secrets.randbelow(60_000),
            "max_array_size": self._max_array_size,
            "node_lines": "\n".join(
                f"NodeName={node} NodeHostname={hostname} NodeAddr=127.0.0.1 Port={ports[node]} "
                f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_PER_NODE_MB} Gres=gpu:{GPUS_PER_NODE}"
                for node in NODES
            ),
            "gres_lines": "\n".join(
                f"NodeName={node} Name=gpu Flags=nvidia_gpu_env "
                f"File={self.run_dir}/gpu[0-{GPUS_PER_NODE - 1}]"
                for node in NODES
            ),
        }
        for template, name in ((SLURM_CONF, "slurm.conf"), (GRES_CONF, "gres.conf")):
            self._write(name, template.format_map(values).encode())
        self._write("munge.key", secrets.token_bytes(128))
        for name in ("slurmctld", *(f"slurmd-{node}" for node in NODES)):
            (self.run_dir / name).mkdir()
        for number in range(GPUS_PER_NODE):
            (self.run_dir / f"gpu{number}").symlink_to(os.devnull)
        # What other users' commands and jobs read; the key stays root's.
        for public in (self.run_dir, self.run_dir / "slurm.conf", self.run_dir / "gres.conf"):
            public.chmod(0o755)
        return ports

    def _write(self, name: str, content: bytes) -> None:
        """Write a file that only root can read, as munged demands."""
        path = self.run_dir / name
        path.touch(mode=0o600)
        path.write_bytes(content)

    def _launch(self, name: str, *command: str) -> None:
        """Start a daemon; what it prints goes to `NAME.out`."""
        self._commands[name] = list(command)
        with (self.run_dir / f"{name}.out").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [_path(SETPRIV), "--pdeathsig", "KILL", *command],
                cwd=self.run_dir,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal must reach the tests only, which then call stop().
                start_new_session=True,
            )

    def _wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll until true; a command that fails counts as not yet, and is reported at the end."""
        problem = ""
        while True:
            try:
                if condition():
                    return
            except subprocess.CalledProcessError as error:
                problem = f": {error}: {error.stderr.strip()}"
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise SlurmStartError(
                        f"{name} exited with status {daemon.returncode} before this: {what}"
                    )
            if time.monotonic() > self._deadline:
                raise SlurmStartError(f"not yet after {START_TIMEOUT_S:g} s: {what}{problem}")
            time.sleep(POLL_S)

    def _all_nodes_idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-p", PARTITIONS[0], "-o", "%N %T").splitlines()
        return states == [f"{node} idle" for node in NODES]

    def _is_alive(self, name: str) -> bool:
        return name in self.daemons and self.daemons[name].poll() is None

    def _cancel_jobs(self) -> None:
        """Cancel all jobs and wait a while for their end; what stays is for the final kill."""
        deadline = time.monotonic() + CANCEL_GRACE_S
        with contextlib.suppress(subprocess.SubprocessError):
            for user in USERS:
                self.run("scancel", f"--user={user}", timeout_s=CANCEL_GRACE_S)
            while self.run("squeue", "-h", timeout_s=CANCEL_GRACE_S):
                if time.monotonic() > deadline:
                    return
                time.sleep(POLL_S)

    def _end(self, names: Iterable[str]) -> None:
        """Terminate these daemons together, wait for their exit, kill those that do not exit."""
        ending = [self.daemons[name] for name in names if name in self.daemons]
        for daemon in ending:
            daemon.terminate()
        deadline = time.monotonic() + STOP_GRACE_S
        for daemon in ending:
            try:
                daemon.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _kill_leftovers(self) -> None:
        """Kill step daemons and job processes, known by the SLURM_CONF that they started with.

        So a shell or a program that was given this cluster's environment ends with the cluster.
        """
        deadline = time.monotonic() + STOP_GRACE_S
        while (pids := self._leftover_pids()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)

    def _leftover_pids(self) -> list[int]:
        marker = os.fsencode(f"SLURM_CONF={self.conf_path}")
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            # Processes may end while they are looked at.
            with contextlib.suppress(OSError):
                if marker in (process / "environ").read_bytes().split(b"\0"):
                    pids.append(int(process.name))
        return [pid for pid in pids if pid != os.getpid()]


def _find(program: str) -> str | None:
    """The path of a program, looked for also where daemons are installed."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])
    return shutil.which(program, path=search)


def _path(program: str) -> str:
    if (path := _find(program)) is None:
        raise SlurmStartError(f"no program {program}")
    return path


def _free_ports(count: int) -> list[int]:
    """Distinct TCP ports that nothing listens on; all are bound until the last is."""
    with contextlib.ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
