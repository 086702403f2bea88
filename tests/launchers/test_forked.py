"""Forked runs: warm, and alone in their failures."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.launchers import forked
from isosweep.launchers.items import QueueItem
from isosweep.launchers.launcher import Refused
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.queue import RunQueue
from isosweep.machine import process_alive, process_start
from isosweep.store.attempts import Status
from tests.conftest import in_ci
from tests.launchers.fake import items_of, the_plan
from tests.launchers.processes import (
    ENTRY,
    FINDER,
    TIMEOUT_S,
    ended,
    order_of,
    outputs,
    pid_of,
    result,
    server_of,
    sleeping,
    start,
)
from tests.runs import wait_for

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="runs are forked on Linux"),
]


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH with which processes execute code instead of training."""
    directory = tmp_path_factory.mktemp("entry")
    (directory / "entry.py").write_text(ENTRY)
    (directory / "sitecustomize.py").write_text(FINDER % str(directory / "entry.py"))
    return f"{directory}:{os.environ.get('PYTHONPATH', '')}"


@pytest.fixture(scope="module")
def shared(entry: str) -> Iterator[LocalLauncher]:
    launcher = LocalLauncher(devices=None)
    yield launcher
    launcher.close()


@pytest.fixture
def launcher(shared: LocalLauncher, entry: str, monkeypatch: pytest.MonkeyPatch) -> LocalLauncher:
    monkeypatch.setenv("PYTHONPATH", entry)
    return shared


DESCRIBE = """
import json, os, signal, sys
from pathlib import Path
server = Path(f"/proc/{os.getppid()}/task")
print("printed on stderr", file=sys.stderr)
print("printed on stdout")
print(json.dumps({
    "modules": [name for name in ("torch", "trl", "mlflow") if name in sys.modules],
    "server": os.getppid(),
    "session": os.getsid(0),
    "threads": [(thread / "comm").read_text().strip() for thread in server.iterdir()],
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "on_child": int(signal.getsignal(signal.SIGCHLD)),
    "environment": dict(os.environ),
    "descriptors": len(list(Path("/proc/self/fd").iterdir())),
}))
"""
PID = "import os; print(os.getpid())"


def test_a_job_starts_warm_in_a_session_of_its_own_with_its_environment_and_logs(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_AFTER_THE_SERVER", "yes")
    # Of somebody's allocation, which a run of this machine is no part of.
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    state = start(launcher, tmp_path, DESCRIBE)
    seen = result(launcher, state)
    assert {"torch", "trl"} <= set(seen["modules"])
    assert seen["server"] == server_of(launcher)
    assert seen["session"] == pid_of(launcher, state)
    # jemalloc, which pyarrow brings, sees to its own thread when a process forks.
    assert set(seen["threads"]) - {"jemalloc_bg_thd"} == {
        Path(f"/proc/{seen['server']}/comm").read_text().strip()
    }
    assert seen["blocked"] == [signal.SIGINT]
    assert seen["on_child"] == signal.SIG_DFL
    environment = seen["environment"]
    assert environment["SET_AFTER_THE_SERVER"] == "yes"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in environment
    assert "SLURM_JOB_ID" not in environment
    # Standard input and output, and the one that lists them: none of the server's.
    assert seen["descriptors"] == 4
    out, err = outputs(state)
    assert out.startswith("printed on stdout")
    assert "printed on stderr" in err


def test_a_job_that_dies_takes_no_other_down(launcher: LocalLauncher, tmp_path: Path) -> None:
    beside = start(launcher, tmp_path / "beside", sleeping(tmp_path / "go"))
    before = server_of(launcher)
    dying = start(launcher, tmp_path / "dying", "import ctypes; ctypes.string_at(0)")
    wait_for(lambda: ended(launcher, dying), TIMEOUT_S)
    assert not ended(launcher, beside)
    after = start(launcher, tmp_path / "after", PID)
    assert result(launcher, after) == pid_of(launcher, after)
    (tmp_path / "go").touch()
    assert result(launcher, beside) == pid_of(launcher, beside)
    assert server_of(launcher) == before


@pytest.mark.parametrize("warm", [True, False], ids=["forked", "cold"])
def test_a_run_that_is_killed_goes_with_all_that_it_started(
    warm: bool, launcher: LocalLauncher, tmp_path: Path
) -> None:
    own = LocalLauncher(devices=None)
    own._server, own._warm = launcher._server if warm else None, warm
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    state = start(own, tmp_path, code + "; import time; time.sleep(600)")
    wait_for(lambda: outputs(state)[0], TIMEOUT_S)
    child = int(outputs(state)[0])
    assert process_alive(child)
    own.stop([state], kill=True)
    wait_for(lambda: ended(own, state) and not process_alive(child), TIMEOUT_S)
    if not warm:
        own.close()


def test_a_place_is_free_only_when_its_process_is_gone(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has said its last word still holds its GPU until it is gone."""
    items = items_of(tmp_path, the_plan().runs[:2])
    job = {**items[0].job, "code": sleeping(tmp_path / "go")}
    monkeypatch.setattr(QueueItem, "job", job)
    queue = RunQueue(items, launcher, max_parallel=1, max_retries=0)
    queue.step()
    ((_, first),) = queue.attempts
    worker = launcher._started[first.path]
    last = replace(first, worker=worker, status=Status.FAILED, reason="its last word")
    last.write()
    for _ in range(3):
        queue.step()
    assert (len(queue.active), queue.waiting) == (1, 1)
    (tmp_path / "go").touch()
    wait_for(lambda: ended(launcher, last), TIMEOUT_S)
    queue.step()
    assert (len(queue.active), queue.waiting) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hanging"])
def test_a_server_that_is_lost_leaves_its_runs_and_others_start_cold(
    number: signal.Signals, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", entry)
    monkeypatch.setattr(forked, "ANSWER_S", 0.5)
    launcher = LocalLauncher(devices=None)
    state = start(launcher, tmp_path / "1", sleeping(tmp_path / "go"))
    lost = server_of(launcher)
    os.kill(lost, number)
    seen = result(launcher, start(launcher, tmp_path / "2", DESCRIBE))
    assert seen["server"] == os.getpid()
    assert seen["session"] != os.getsid(0)
    assert (seen["modules"], seen["blocked"]) == ([], [signal.SIGINT])
    assert not process_alive(lost)
    assert not ended(launcher, state)
    (tmp_path / "go").touch()
    assert result(launcher, state) == pid_of(launcher, state)
    launcher.close()


def test_a_broken_interpreter_fails_the_run_and_a_missing_one_is_no_reason_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = LocalLauncher(devices=None)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    state = start(launcher, tmp_path / "1", PID)
    wait_for(lambda: ended(launcher, state), TIMEOUT_S)
    monkeypatch.setattr(sys, "executable", "/no/python")
    (refused,) = launcher.submit([order_of(launcher, tmp_path / "2", {})])
    why = "[Errno 2] No such file or directory: '/no/python'"
    assert refused == Refused(reason=why, passing=False)


DRIVER = """
import signal, sys, time
from pathlib import Path
# Where the tests run under nohup it would be ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from isosweep.launchers.local import LocalLauncher
from tests.launchers.processes import pid_of, sleeping, start
launcher = LocalLauncher(devices=None)
state = start(launcher, Path(sys.argv[1]), sleeping(Path(sys.argv[1]) / "go"))
print(launcher._server.pid, pid_of(launcher, state), flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", in_ci([signal.SIGKILL, signal.SIGHUP], signal.SIGKILL))
def test_when_the_driver_is_killed_its_runs_go_on_and_the_server_leaves(
    number: signal.Signals, entry: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": entry}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        server, run = map(int, driver.stdout.readline().split())
        # As a terminal that goes away does, to all processes of its session.
        os.killpg(driver.pid, number)
    wait_for(lambda: not process_alive(server), TIMEOUT_S)
    assert process_alive(run)
    began = process_start(run)
    (tmp_path / "go").touch()
    wait_for(lambda: process_start(run) != began, TIMEOUT_S)
    assert (tmp_path / "logs" / "1" / "worker.out").read_text() == f"{run}\n"


@pytest.mark.slow
def test_modules_in_the_working_directory_are_not_imported(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "trl", "torch"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    monkeypatch.setenv("PYTHONPATH", entry.rstrip(":"))
    monkeypatch.chdir(tmp_path)
    launcher = LocalLauncher(devices=None)
    state = start(launcher, tmp_path / "run", PID)
    assert result(launcher, state) == pid_of(launcher, state)
    launcher.close()
    assert not (tmp_path / "owned").exists()


@pytest.mark.slow
def test_importing_the_stack_initialises_no_gpu() -> None:
    code = """
import os
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
import torch
touched = []
def touch(*given): touched.append(given); return 1
# A machine with a GPU, as far as those who ask can see.
torch.cuda._is_compiled = lambda: True
torch._C._cuda_getCurrentRawStream = None
torch.cuda._device_count_nvml = lambda: 1
torch.cuda._lazy_init = torch._C._cuda_init = torch._C._cuda_getDeviceCount = touch
assert torch.cuda.is_available() and not touched
from isosweep.launchers.fork_server import import_stack
import_stack()
assert not touched and not torch.cuda.is_initialized(), touched
del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
torch.cuda.is_available()
assert touched, "the fakes record nothing"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
