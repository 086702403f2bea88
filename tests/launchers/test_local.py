"""Runs of this machine: warm, alone in their failures, and not in need of who started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

import pytest

from isosweep.launchers.launcher import QueueItem, Refused
from isosweep.launchers.queue import RunQueue
from isosweep.machine import process_alive
from isosweep.store.attempts import Status
from tests.launchers.fake import items_of, the_plan
from tests.launchers.processes import (
    TIMEOUT_S,
    CodeLauncher,
    ended,
    order_of,
    outputs,
    pid_of,
    result,
    sleeping,
    start,
)
from tests.runs import wait_for

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux"),
]


@pytest.fixture(scope="module")
def launcher() -> Iterator[CodeLauncher]:
    # That of this process may serve other tests, with what those have imported.
    server = forkserver.ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect_to_new_process", "ensure_running", "set_forkserver_preload"):
            patch.setattr(forkserver, name, getattr(server, name))
        yield CodeLauncher(devices=None)
        server._stop()  # type: ignore[attr-defined]


DESCRIBE = """
import atexit, json, os, signal, sys
from pathlib import Path
server = Path(f"/proc/{os.getppid()}/task")
atexit.register(print, "at its exit", file=sys.stderr)
print("printed on stderr", file=sys.stderr)
print("printed on stdout")
watched = ("trl", "mlflow", "isosweep.training.attempt")
print(json.dumps({
    "modules": [name for name in watched if name in sys.modules],
    "server": os.getppid(),
    "session": os.getsid(0),
    "threads": [(thread / "comm").read_text().strip() for thread in server.iterdir()],
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "environment": dict(os.environ),
    "descriptors": len(list(Path("/proc/self/fd").iterdir())),
}))
"""
PID = "import os; print(os.getpid())"


def test_a_job_starts_warm_in_a_session_of_its_own_with_its_environment_and_logs(
    launcher: CodeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = result(launcher, start(launcher, tmp_path / "1", DESCRIBE))["server"]
    monkeypatch.setenv("SET_AFTER_THE_SERVER", "yes")
    # Of somebody's allocation, which a run of this machine is no part of.
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    state = start(launcher, tmp_path / "2", DESCRIBE)
    seen = result(launcher, state)
    assert seen["modules"] == ["trl", "isosweep.training.attempt"]
    assert seen["server"] == server
    assert seen["session"] == pid_of(launcher, state)
    # jemalloc, which pyarrow brings, sees to its own thread when a process forks.
    assert set(seen["threads"]) - {"jemalloc_bg_thd"} == {
        Path(f"/proc/{server}/comm").read_text().strip()
    }
    assert seen["blocked"] == [signal.SIGINT]
    environment = seen["environment"]
    assert environment["SET_AFTER_THE_SERVER"] == "yes"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert {"PYTORCH_NVML_BASED_CUDA_CHECK", "SLURM_JOB_ID"}.isdisjoint(environment)
    # Standard input and output, and the one that lists them: none of the server's.
    assert seen["descriptors"] == 4
    out, err = outputs(state)
    assert out.startswith("printed on stdout")
    assert err == "printed on stderr\nat its exit\n"


def test_a_job_that_dies_takes_no_other_down(launcher: CodeLauncher, tmp_path: Path) -> None:
    beside = start(launcher, tmp_path / "beside", sleeping(tmp_path / "go"))
    dying = start(launcher, tmp_path / "dying", "import ctypes; ctypes.string_at(0)")
    wait_for(lambda: ended(launcher, dying), TIMEOUT_S)
    # It counts as a try, although it did not begin.
    assert launcher.observe([dying])[0].job_id is not None
    assert not ended(launcher, beside)
    after = start(launcher, tmp_path / "after", PID)
    assert result(launcher, after) == pid_of(launcher, after)
    (tmp_path / "go").touch()
    assert result(launcher, beside) == pid_of(launcher, beside)


def test_a_run_that_is_killed_goes_with_all_that_it_started(
    launcher: CodeLauncher, tmp_path: Path
) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    state = start(launcher, tmp_path, code + "; import time; time.sleep(600)")
    wait_for(lambda: outputs(state)[0], TIMEOUT_S)
    child = int(outputs(state)[0])
    assert process_alive(child)
    launcher.stop([state], kill=True)
    wait_for(lambda: ended(launcher, state) and not process_alive(child), TIMEOUT_S)


def test_a_place_is_free_only_when_its_process_is_gone(
    launcher: CodeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


# Executed as a user's script without a guard, from the directory of that.
HEALS = """
import os, signal, sys
from pathlib import Path
from isosweep.devices import torch_is_for_rocm
from tests.launchers.processes import TIMEOUT_S, CodeLauncher, pid_of, result, sleeping, start
from tests.runs import wait_for
from isosweep.machine import process_alive
root = Path(sys.argv[1])
launcher = CodeLauncher(devices=None)
torch_is_for_rocm()
# From now on in the working directory.
for name in ("queue", "trl", "torch"):
    Path(f"{name}.py").write_text("open('owned', 'w')")
state = start(launcher, root, sleeping(root / "go"))
ask = "import os, sys; print(f'[{os.getppid()}, {int(\\"trl\\" in sys.modules)}]')"
lost, warm = result(launcher, start(launcher, root / "1", ask))
os.kill(lost, signal.SIGKILL)
# Its last thread may end after the first.
over = os.WEXITED | os.WNOWAIT | os.WNOHANG
wait_for(lambda: os.waitid(os.P_PID, lost, over) is not None, TIMEOUT_S)
another, again = result(launcher, start(launcher, root / "2", ask))
print(lost != another, warm, again, process_alive(pid_of(launcher, state)), another, flush=True)
start(launcher, root / "3", sleeping(root / "go"))
"""


@pytest.mark.slow
def test_a_lost_server_is_replaced_and_a_driver_that_leaves_waits_for_no_run(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEALS)
    path = filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        cwd=tmp_path,
        check=False,
        timeout=TIMEOUT_S,
    )
    *seen, server = done.stdout.split()
    assert seen == ["True", "1", "1", "True"], done.stderr
    wait_for(lambda: not process_alive(int(server)), TIMEOUT_S)
    assert not (tmp_path / "owned").exists()
    (tmp_path / "go").touch()
    out = tmp_path / "logs" / "1" / "worker.out"
    wait_for(lambda: out.read_text(), TIMEOUT_S)


@pytest.mark.parametrize(
    ("error", "passing"), [(EOFError("planted"), False), (BlockingIOError("planted"), True)]
)
def test_a_server_that_cannot_start_refuses_its_runs(
    error: Exception,
    passing: bool,
    launcher: CodeLauncher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = sys.modules["__main__"]
    process = mock.Mock(start=mock.Mock(side_effect=error))
    monkeypatch.setattr(launcher._context, "Process", mock.Mock(return_value=process))
    (refused,) = launcher.submit([order_of(launcher, tmp_path, {})])
    assert refused == Refused(reason="no process could be started (planted)", passing=passing)
    assert sys.modules["__main__"] is main
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


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
del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
import isosweep.launchers.preloaded
assert not touched and not torch.cuda.is_initialized(), touched
del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
torch.cuda.is_available()
assert touched, "the fakes record nothing"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
