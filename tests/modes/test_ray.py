"""Sweeps as jobs of a real Ray on this machine."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.contract.surface import (
    TWO_RUNS,
    Run,
    document_of,
    isosweep,
    records_of,
    runs_of,
    wait_for,
    wait_until_training,
)

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / ".venv-ray" / "bin"
SWEEP = (
    *TWO_RUNS,
    *("launcher=ray", "launcher.max_parallel=1", "launcher.ray.cpus=1", "launcher.ray.mem_gb=1"),
)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """A Ray of two CPUs, ended by its own session: `ray stop` ends everybody's."""
    if not (BIN / "ray").exists():
        missing("ray", "no .venv-ray: make setup-ray")
    dashboard, agent, metrics, client = _free_ports(4)
    # Its sockets have paths of 107 characters at most (unix(7)), pytest's directories are long.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        own = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{dashboard}",
            "RAY_ADDRESS": "",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        options = (
            *("--port=0", "--min-worker-port=0", "--max-worker-port=0", "--num-cpus=2"),
            *("--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1"),
            *(f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}"),
            *(f"--metrics-export-port={metrics}", f"--ray-client-server-port={client}"),
            *("--disable-usage-stats", "--object-store-memory=100000000"),
            f"--temp-dir={directory}",
        )
        with (
            (Path(directory) / "head.log").open("wb") as log,
            pytest.MonkeyPatch.context() as patch,
        ):
            for name, value in own.items():
                patch.setenv(name, value)
            head = subprocess.Popen(
                [BIN / "ray", "start", "--head", "--block", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                wait_for(lambda: _answers(own["RAY_API_SERVER_ADDRESS"]), pause=0.5)
                yield
            finally:
                _end(head)


def _answers(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/api/version", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _end(head: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(head.pid, number)
        with suppress(subprocess.TimeoutExpired):
            head.wait(20)


def job_of(run: Run) -> str:
    attempt = run.state
    return f"isosweep-{attempt['batch']}-{attempt['index']}"


def _start(cwd: Path, *overrides: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "isosweep", *SWEEP, *overrides],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_killed_ray_job_goes_on_to_the_records_of_a_local_one(
    straight: Path, tmp_path: Path
) -> None:
    cwd = tmp_path / "a path with blanks"
    cwd.mkdir()
    driver = _start(cwd)
    run = wait_until_training(cwd)
    assert job_of(run).startswith("isosweep-")
    os.kill(run.state["pid"], signal.SIGKILL)
    output = driver.communicate(timeout=600)[0].decode()
    assert driver.returncode == 0, output
    assert records_of(cwd) == records_of(straight)
    assert sorted(each.jobs for each in runs_of(cwd)) == [1, 2]
    assert run.jobs == 2


def test_mode_cancel_ends_ray_jobs(tmp_path: Path) -> None:
    # Long enough to be at work when the cancel comes.
    driver = _start(tmp_path, "budget=1e12")
    job = job_of(wait_until_training(tmp_path))
    cancelled = isosweep("mode=cancel", cwd=tmp_path).stdout
    output = driver.communicate(timeout=120)[0].decode()
    assert driver.returncode == 1, output
    asked = subprocess.run(
        ["ray", "job", "status", job],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    # Its worker obeys the request by itself, or Ray stops it: whichever comes first.
    said = asked.stdout + asked.stderr
    assert "was stopped" in said or "succeeded" in said
    assert "cancelled" in cancelled
    shown = isosweep("mode=status", "runs=[seed:0]", cwd=tmp_path, check=False).stdout
    assert re.search(r"2 runs: (1 not begun, 1|2) cancelled", shown), shown


def test_a_job_that_ray_stops_leaves_a_checkpoint_and_goes_on(
    straight: Path, tmp_path: Path
) -> None:
    driver = _start(tmp_path)
    run = wait_until_training(tmp_path)
    subprocess.run(["ray", "job", "stop", "--no-wait", job_of(run)], check=True, timeout=60)
    output = driver.communicate(timeout=600)[0].decode()
    assert driver.returncode == 0, output
    assert records_of(tmp_path) == records_of(straight)
    assert document_of(run.root / "attempts" / "1.json")["status"] == "interrupted"
