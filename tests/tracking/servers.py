"""An `mlflow server`, and a PostgreSQL behind it, that tests stop and start again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

# Debian keeps PostgreSQL's own commands out of PATH, a directory for each version.
POSTGRES_DIRECTORIES = "/usr/lib/postgresql/*/bin"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MlflowServer:
    """One on a port of its own, with `backend` as its database."""

    def __init__(self, root: Path, backend: str | None = None) -> None:
        self.root = root
        self.backend = backend or f"sqlite:///{root / 'server.db'}"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.root.mkdir(exist_ok=True)
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--backend-store-uri", self.backend),
            *("--artifacts-destination", (self.root / "artifacts").as_uri()),
        ]
        with (self.root / "log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.root,
                # Eight processes less, which would run evaluations.
                env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        pytest.fail(f"no mlflow server: {(self.root / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process is not None:
            # The server's workers are its children, in a group of their own.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(timeout=30)
            self._process = None

    def pause(self, *, still: bool) -> None:
        """Have it hang, or go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP if still else signal.SIGCONT)


def postgres_commands() -> Path | None:
    """Where `initdb` and `pg_ctl` are."""
    found = sorted(Path("/").glob(POSTGRES_DIRECTORIES.lstrip("/")))
    return found[-1] if found and shutil.which("runuser") else None


class Postgres:
    """One in `root`, which only listens on a socket there; it refuses to run as root."""

    def __init__(self, root: Path, commands: Path) -> None:
        self.root = root
        self.uri = f"postgresql+psycopg2://postgres:secret@/mlflow?host={root}"
        self._commands = commands
        root.mkdir()
        shutil.chown(root, "postgres")
        self._run("initdb", "-D", str(root / "data"), "--auth=trust", "--no-sync")
        self.start()
        self._run("createdb", "-h", str(root), "mlflow")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.root}' -c fsync=off"
        log = str(self.root / "log")
        self._run("pg_ctl", "-D", str(self.root / "data"), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.root / "data"), "-m", "immediate", "-w", "stop")

    def execute(self, statement: str, database: str = "mlflow") -> None:
        self._run("psql", "-q", "-h", str(self.root), "-d", database, "-c", statement)

    def _run(self, command: str, *arguments: str) -> None:
        path = self._commands / command
        done = subprocess.run(
            ["runuser", "-u", "postgres", "--", str(path), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
