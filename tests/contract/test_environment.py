"""Nothing that a user's shell exports changes a record, or has a run wait for others."""

import json
import sys
from pathlib import Path

import pytest

import isosweep as door
from tests.conftest import SMALL
from tests.contract.surface import isosweep

# What accelerate launch, torchrun and mpirun export to all that is started below them, and
# variables by which libraries compute in another precision.
_HOSTILE = {
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
    "ACCELERATE_DYNAMO_BACKEND": "inductor",
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
    "PARALLELISM_CONFIG_TP_SIZE": "4",
    "FSDP_VERSION": "2",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "3",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
    "GROUP_RANK": "1",
    "ROLE_WORLD_SIZE": "4",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "PMI_SIZE": "4",
    "PMI_RANK": "3",
    "NVIDIA_TF32_OVERRIDE": "1",
    "ONEDNN_DEFAULT_FPMATH_MODE": "BF16",
}
_SWEEP = ("budget=6.4e9", *SMALL, "tracking=none", "sweep=s", "launcher.max_retries=0")


def _records(cwd: Path) -> list[dict[str, object]]:
    """Every evaluation of the sweep, without its times."""
    frame = door.open(cwd / "sweeps" / "s").records
    measured = ["run_id", "step", "completion_tokens", "flops", "reward", "response_tokens"]
    rows: list[dict[str, object]] = frame[measured].to_dict("records")
    return rows


@pytest.mark.parametrize("launcher", ["local", "inline"])
def test_exported_variables_change_no_record_and_hang_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    plain, hostile = tmp_path / "plain", tmp_path / "hostile"
    plain.mkdir()
    hostile.mkdir()
    isosweep(*_SWEEP, cwd=plain)
    for name, value in _HOSTILE.items():
        monkeypatch.setenv(name, value)
    isosweep(*_SWEEP, f"launcher={launcher}", cwd=hostile)
    assert _records(hostile) == _records(plain)


def test_a_command_that_trains_has_of_these_variables_those_of_its_settings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains = tmp_path / "trains.py"
    trains.write_text("import json, os\njson.dump(dict(os.environ), open('found', 'w'))\n")
    for name, value in _HOSTILE.items():
        monkeypatch.setenv(name, value)
    isosweep(
        *("budget=1e4", "budget_unit=rollouts", "grid.seeds=[0]", "grid.problems_per_batch=[4]"),
        *("grid.num_generations=[4]", "tracking=none", "launcher.max_retries=0", "trainer=command"),
        f"trainer.command=[{sys.executable},{trains}]",
        "trainer.environment={ACCELERATE_MIXED_PRECISION: fp16}",
        cwd=tmp_path,
        check=False,
    )
    found = json.loads((tmp_path / "found").read_text())
    kept = {name: found[name] for name in _HOSTILE if name in found}
    assert kept == {"ACCELERATE_MIXED_PRECISION": "fp16"}
