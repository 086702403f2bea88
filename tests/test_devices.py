"""Which GPUs a process was given: as torch reads it, whatever the variables hold."""

import json
import os
from pathlib import Path

import pytest

from isosweep.config.study import HealthConfig
from isosweep.devices import (
    CUDA,
    HIP,
    ROCR,
    device_after,
    keep_first,
    showing,
    torch_is_for_rocm,
    visible_devices,
)
from isosweep.files import write_json
from isosweep.plan.spec import run_spec
from isosweep.store.paths import RunPaths
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.distributed import RanksError
from isosweep.training.session import TrainRun
from tests.conftest import make_config

A, B = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1b2c"
OF_A, OF_B = f"MIG-{A}/1/0", "MIG-1b2c3d4e-5f60-4718-8293-a4b5c6d7e8f9"


@pytest.fixture(autouse=True)
def _eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CUDA, HIP, ROCR):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("isosweep.devices._driver_devices", lambda: 8)


def test_the_variable_is_read_as_torch_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.cuda import _parse_visible_devices

    numbers = ("4,5,6,7", "7, 4", "0,2,-1,1", "", "-1", "NoDevFiles", "0,1,0")
    uuids = (f"{A},{A}", f"{A},{B}", f"{A},{OF_A},{B}", f"{OF_A},{OF_B}", f"0,{A}")
    for value in (*numbers, *uuids):
        monkeypatch.setenv(CUDA, value)
        devices = visible_devices()
        assert list(devices.names) == [str(name) for name in _parse_visible_devices()], value
        assert devices.source.startswith(f"CUDA_VISIBLE_DEVICES={value}")
        assert devices.known
    # The driver has eight.
    monkeypatch.setenv(CUDA, "6,7,8,5")
    assert visible_devices().described() == f"2 here: {CUDA}=6,7,8,5, of which 6,7 can be seen"


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({HIP: "2,3", CUDA: "5"}, "2 3"),
        ({ROCR: "4,5,6", CUDA: "5"}, "0 1 2"),
        ({ROCR: "GPU-a,GPU-b", HIP: "1"}, "1"),
        ({ROCR: "GPU-a,GPU-b", HIP: "1,2"}, "1"),
        ({CUDA: "5,6"}, "5 6"),
        ({HIP: ""}, ""),
    ],
)
def test_rocm_has_two_variables_more(
    variables: dict[str, str], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("isosweep.devices.torch_is_for_rocm", lambda: True)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert visible_devices().names == tuple(names.split())
    assert showing(("2", "3")) == {CUDA: "2,3", HIP: "2,3"}
    if variables != {ROCR: "GPU-a,GPU-b", HIP: "1,2"}:
        # torch does not ask how many there are, and leaves that to the runtime.
        assert [str(name) for name in torch.cuda._parse_visible_devices()] == names.split()


def test_what_torch_is_built_for_is_read_without_it() -> None:
    import torch

    assert torch_is_for_rocm() == (torch.version.hip is not None)


def test_a_process_keeps_the_first_of_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CUDA, f"{A},{B}")
    keep_first(2)
    assert os.environ[CUDA] == f"{A},{B}"
    # A generator has one after those that train.
    assert device_after(1) == B
    with pytest.raises(LookupError, match="takes 3 GPUs, and there are 2 here"):
        device_after(2)
    keep_first(1)
    assert os.environ[CUDA] == A
    with pytest.raises(LookupError, match=f"takes 2 GPUs, and there are 1 here: {CUDA}={A}"):
        keep_first(2)


# Stands for TRL: notes what its process sees, and ends once the other one has too.
TRL = """
import json, os, time
from pathlib import Path
here = Path(__file__).parent
(here / os.environ["RANK"]).write_text(json.dumps(dict(os.environ)))
while not ((here / "0").exists() and (here / "1").exists()):
    time.sleep(0.02)
raise RuntimeError("no GPU is touched here")
"""


@pytest.mark.train
def test_a_run_in_a_job_of_more_gpus_sees_its_own_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config("hardware=h100", "hardware.devices_per_run=2")
    spec = run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=4)
    run = RunPaths(tmp_path / spec.run_id)
    run.root.mkdir()
    write_json(run.spec, {"spec": spec.to_json()})
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text(TRL)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv(CUDA, f"{OF_A},{OF_B},MIG-3,MIG-4")
    with pytest.raises(RanksError):
        train_unsubmitted(TrainRun(str(run.root), (1e10,), "flops", HealthConfig()))
    seen = [json.loads((tmp_path / "trl" / rank).read_text()) for rank in "01"]
    assert [each[CUDA] for each in seen] == [f"{OF_A},{OF_B}"] * 2
    assert [each["LOCAL_RANK"] for each in seen] == ["0", "1"]
