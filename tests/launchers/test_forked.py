"""Forked runs: warm, alone in their failures, and with the records of runs that start cold."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from submitit.core.utils import FailedJobError

from isosweep.config.health import HealthConfig
from isosweep.devices import visible_devices
from isosweep.files import write_json
from isosweep.launchers.local import LocalLauncher
from isosweep.machine import process_alive, process_start
from isosweep.plan.study import resolve
from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state
from isosweep.training.worker import TrainRun
from tests.conftest import SMALL, make_config
from tests.runs import reproducible, wait_for

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="runs are forked on Linux"),
]
# Many times what a start takes.
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    launcher = LocalLauncher(devices=None)
    yield launcher
    end(launcher)


def end(launcher: LocalLauncher) -> None:
    if launcher._server is not None:
        launcher._server.close()


def server_of(launcher: LocalLauncher) -> int:
    assert launcher._server is not None
    return launcher._server.pid


def result(launcher: LocalLauncher, handle: Any) -> Any:
    wait_for(lambda: launcher.ended(handle), TIMEOUT_S)
    return handle.result()


def describe() -> dict[str, Any]:
    """What a job sees of its process."""
    server = Path(f"/proc/{os.getppid()}/task")
    print("printed on stdout")
    print("printed on stderr", file=sys.stderr)
    return {
        "modules": {name for name in ("torch", "trl", "mlflow") if name in sys.modules},
        "server": os.getppid(),
        "threads": {(thread / "comm").read_text().strip() for thread in server.iterdir()},
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "on_child": signal.getsignal(signal.SIGCHLD),
        "environment": dict(os.environ),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def dict_of_environment() -> dict[str, str]:
    return dict(os.environ)


def sleep_until(file: str) -> int:
    while not Path(file).exists():
        time.sleep(0.02)
    return os.getpid()


def die_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_of_a_segfault() -> None:
    import ctypes

    ctypes.string_at(0)


def die_out_of_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    bytearray(2**33)


def die_in_torch_out_of_memory() -> None:
    import resource

    import torch

    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    torch.ones(2**33)


def test_a_job_starts_warm_with_the_environment_and_logs_of_submitit(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_AFTER_THE_SERVER", "yes")
    handle = launcher.submit(describe, tmp_path / "logs", "a-run", 0)
    seen = result(launcher, handle)
    assert {"torch", "trl"} <= seen["modules"]
    assert seen["server"] == server_of(launcher)
    # jemalloc, which pyarrow brings, sees to its own thread when a process forks.
    assert seen["threads"] - {"jemalloc_bg_thd"} == {
        Path(f"/proc/{seen['server']}/comm").read_text().strip()
    }
    assert seen["blocked"] == {signal.SIGINT}
    assert seen["on_child"] == signal.SIG_DFL
    environment = seen["environment"]
    assert environment["SET_AFTER_THE_SERVER"] == "yes"
    assert environment["SUBMITIT_LOCAL_JOB_ID"] == handle.job_id
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in environment
    # Standard input and output, and the one that lists them: none of the server's.
    assert seen["descriptors"] == 4
    assert "printed on stdout" in handle.paths.stdout.read_text()
    assert "printed on stderr" in handle.paths.stderr.read_text()
    assert handle.paths.result_pickle.parent == tmp_path / "logs"


UUIDS = "GPU-8932f937,GPU-1b2c3d4e-5f60-4718-8293-a4b5c6d7e8f9"
MIGS = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0,MIG-1b2c3d4e-5f60-4718-8293-a4b5c6d7e8f9"


@pytest.mark.parametrize("warm", [True, False], ids=["forked", "cold"])
@pytest.mark.parametrize(
    ("inherited", "per_run", "seen"),
    [
        ("4,5,6,7", 1, ["4", "5", "6", "7", "4"]),
        ("4,5,6,7", 2, ["4,5", "6,7", "4,5"]),
        (UUIDS, 1, UUIDS.split(",")),
        (MIGS, 1, MIGS.split(",")),
    ],
    ids=["numbers", "pairs", "uuids", "migs"],
)
def test_each_worker_sees_its_own_of_the_inherited_gpus(
    inherited: str,
    per_run: int,
    seen: list[str],
    warm: bool,
    launcher: LocalLauncher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isosweep.devices._driver_devices", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", inherited)
    shared = LocalLauncher(devices=visible_devices(), per_run=per_run)
    # The same server: this machine may have no GPU, and none is touched here.
    shared._server, shared._warm = launcher._server, warm
    slots = range(len(seen) if warm else 1)
    handles = [shared.submit(dict_of_environment, tmp_path / str(i), "a-run", i) for i in slots]
    environments = [result(shared, handle) for handle in handles]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in environments] == seen[: len(slots)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == inherited
    shared._server = None


def test_rocm_is_told_by_both_variables(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isosweep.devices.torch_is_for_rocm", lambda: True)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "2,3,6,7")
    shared = LocalLauncher(devices=visible_devices(), per_run=2)
    shared._server = launcher._server
    handle = shared.submit(dict_of_environment, tmp_path, "a-run", 1)
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    assert [result(shared, handle)[name] for name in names] == ["2,3,6,7", "2,3", "2,3"]
    shared._server = None


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (die_by_signal, None),
        (die_of_a_segfault, None),
        (die_out_of_memory, "MemoryError"),
        (die_in_torch_out_of_memory, "Cannot allocate memory"),
    ],
)
def test_a_job_that_dies_takes_no_other_down(
    job: Callable[[], None], message: str | None, launcher: LocalLauncher, tmp_path: Path
) -> None:
    waiting = partial(sleep_until, str(tmp_path / "go"))
    beside = launcher.submit(waiting, tmp_path / "beside", "a-run", 0)
    before = server_of(launcher)
    dying = launcher.submit(job, tmp_path / "dying", "a-run", 1)
    wait_for(lambda: launcher.ended(dying), TIMEOUT_S)
    if message is None:
        assert not dying.paths.result_pickle.exists()
    else:
        assert message in dying.paths.stderr.read_text()
    assert not launcher.ended(beside)
    after = launcher.submit(os.getpid, tmp_path / "after", "a-run", 1)
    assert result(launcher, after) == int(after.job_id)
    (tmp_path / "go").touch()
    assert result(launcher, beside) == int(beside.job_id)
    assert server_of(launcher) == before


@pytest.mark.slow
def test_a_killed_server_is_started_again_and_its_runs_go_on(tmp_path: Path) -> None:
    launcher = LocalLauncher(devices=None)
    handle = launcher.submit(partial(sleep_until, str(tmp_path / "go")), tmp_path / "1", "a-run", 0)
    first = server_of(launcher)
    os.kill(first, signal.SIGKILL)
    other = launcher.submit(describe, tmp_path / "2", "a-run", 1)
    seen = result(launcher, other)
    assert seen["server"] == server_of(launcher) != first
    assert "trl" in seen["modules"]
    assert not launcher.ended(handle)
    (tmp_path / "go").touch()
    assert result(launcher, handle) == int(handle.job_id)
    end(launcher)


DRIVER = """
import sys, time
from functools import partial
from pathlib import Path
from isosweep.launchers.local import LocalLauncher
from tests.launchers.test_forked import sleep_until
launcher = LocalLauncher(devices=None)
go, logs = sys.argv[1:]
handle = launcher.submit(partial(sleep_until, go), Path(logs), "a-run", 0)
print(launcher._server.pid, handle.job_id, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_when_the_driver_is_killed_its_runs_go_on_and_the_server_leaves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "go"), str(tmp_path / "logs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        server, run = map(int, driver.stdout.readline().split())
        driver.kill()
    wait_for(lambda: not process_alive(server), TIMEOUT_S)
    assert process_alive(run)
    began = process_start(run)
    (tmp_path / "go").touch()
    wait_for(lambda: process_start(run) != began, TIMEOUT_S)
    assert (tmp_path / "logs" / f"{run}_0_result.pkl").exists()


def import_trl() -> str:
    import trl

    return str(trl.__file__)


@pytest.mark.slow
def test_a_stack_that_cannot_be_imported_fails_the_run_in_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text("raise RuntimeError('a broken package')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    launcher = LocalLauncher(devices=None)
    handle = launcher.submit(import_trl, tmp_path / "logs", "a-run", 0)
    with pytest.raises(FailedJobError, match="a broken package"):
        result(launcher, handle)
    assert "a broken package" in handle.paths.stderr.read_text()
    end(launcher)


@pytest.mark.slow
def test_a_server_that_always_dies_leaves_runs_to_start_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    launcher = LocalLauncher(devices=None)
    handle = launcher.submit(os.getpid, tmp_path / "logs", "a-run", 0)
    assert result(launcher, handle) != int(handle.job_id)
    assert launcher._server is None


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


def train(run: RunPaths, launcher: LocalLauncher, job: TrainRun) -> list[dict[str, Any]]:
    handle = launcher.submit(job, run.next_logs(), run.run_id, 0)
    assert result(launcher, handle) == "finished"
    return reproducible(run)


@pytest.mark.slow
def test_a_forked_run_has_the_records_of_one_that_starts_cold(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    study = resolve(make_config("budget=1e10", *SMALL))
    planned = study.plan.runs[0]
    records: list[list[dict[str, Any]]] = []
    cold = LocalLauncher(devices=None)
    cold._warm = False
    for starts in (launcher, cold):
        run = RunPaths(tmp_path / f"{len(records)}" / planned.run_id)
        run.logs.mkdir(parents=True)
        write_json(run.spec, {"spec": study.specs[planned.run_id].to_json()})
        job = TrainRun(str(run.root), planned.milestones, "flops", HealthConfig())
        records.append(train(run, starts, job))
        state = read_state(run)
        assert state is not None
        assert state.status == "finished"
    assert records[0] == records[1]
    assert len(records[0]) > 3
