"""GPUs that a sweep needs against those that were inherited, or that its jobs ask for."""

import pytest

from isosweep.launchers.sbatch import gpus_of_node
from isosweep.preflight.machine import missing_devices
from tests.conftest import make_config

GPU = ("model=qwen-0.5b", "hardware=h100", "generation=transformers")
PAIR = ("hardware.devices_per_run=2", "hardware.sharding=fsdp")
NODES = ("hardware.devices_per_run=16", "hardware.sharding=fsdp")
MIG = "MIG-GPU-8932f937/1/0,MIG-GPU-8932f937/2/0"


@pytest.fixture(autouse=True)
def _eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.devices._driver_devices", lambda: 8)


@pytest.mark.parametrize(
    ("visible", "overrides", "missing", "remedy"),
    [
        ("4,5,6,7", PAIR, None, None),
        (
            *("4", PAIR, "2 GPUs for a run, of 1 here: CUDA_VISIBLE_DEVICES=4"),
            "set hardware.devices_per_run=1",
        ),
        ("NoDevFiles", (), "a GPU (h100) on this machine: CUDA_VISIBLE_DEVICES=NoDevFiles", "run"),
        (MIG, PAIR, "2 GPUs that one run can see", "set hardware.devices_per_run=1"),
        ("4,5", ("launcher.max_parallel=2",), None, None),
        (
            *("4,5", ("launcher.max_parallel=3",), "GPUs for 3 runs at once, 1 each, of 2 here"),
            "set launcher.max_parallel=2",
        ),
    ],
)
def test_what_is_missing_quotes_the_inherited_list(
    visible: str,
    overrides: tuple[str, ...],
    missing: str | None,
    remedy: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = missing_devices(make_config(*GPU, *overrides))
    if missing is None:
        assert not found
        return
    ((what, do),) = found
    assert what.startswith(missing)
    assert f"CUDA_VISIBLE_DEVICES={visible}" in what
    assert remedy is not None
    assert do.startswith(remedy)


def gres(value: str) -> str:
    return f"+launcher.slurm.additional.gres='{value}'"


@pytest.mark.parametrize(
    ("overrides", "asked", "missing"),
    [
        ((), 1, None),
        (("launcher.slurm.gpus_per_node=8",), 8, None),
        ((*PAIR, "launcher.slurm.gpus_per_node=1"), 1, "2 GPUs in what each job asks for"),
        (("launcher.slurm.gpus_per_node=0",), 0, "1 GPUs in what each job asks for"),
        (NODES, 8, None),
        ((*NODES, "launcher.slurm.gpus_per_node=4"), 4, "8 GPUs in what each job asks for"),
        ((gres("gpu:h100:1"),), 0, None),
        ((gres("nvme:1"),), 1, None),
        (("+launcher.slurm.additional.gpus-per-task=1",), 0, None),
    ],
)
def test_a_slurm_job_asks_for_the_gpus_of_its_run(
    overrides: tuple[str, ...], asked: int, missing: str | None
) -> None:
    config = make_config(*GPU, "launcher=slurm", *overrides)
    assert gpus_of_node(config) == asked
    found = missing_devices(config)
    assert [what.partition(",")[0] for what, _ in found] == ([] if missing is None else [missing])
