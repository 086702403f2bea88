"""`launcher=auto` takes Slurm where its commands are and its controller answers."""

from pathlib import Path

import pytest

from isosweep.config.launcher import LauncherConfig
from isosweep.errors import SettingError
from isosweep.launchers import auto
from tests.conftest import make_config

UP = 'echo "Slurmctld(primary) at head is UP"'
DOWN = 'echo "Slurmctld(primary) at head is DOWN"; exit 1'


def _commands(directory: Path, monkeypatch: pytest.MonkeyPatch, ping: str) -> None:
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        (directory / name).write_text(f"#!/bin/sh\n{ping}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


@pytest.mark.parametrize(
    ("ping", "name", "why"),
    [
        (UP, "slurm", "its controller answers"),
        (DOWN, "local", "at head is DOWN"),
        ("sleep 30", "local", "no answer in 0.3 s"),
    ],
)
def test_slurm_is_taken_where_it_answers(
    ping: str, name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commands(tmp_path, monkeypatch, ping)
    monkeypatch.setattr(auto, "_TIMEOUT_S", 0.3 if "sleep" in ping else 10.0)
    config, line = auto.settled(make_config("launcher=auto"))
    assert config.launcher.name == name
    assert line.startswith(f"launcher=auto takes {name}: ")
    assert why in line


def test_this_machine_is_taken_where_there_is_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    config, line = auto.settled(make_config("launcher=auto"))
    assert config.launcher == LauncherConfig(name="local")
    assert line == "launcher=auto takes local: no sbatch here"
    several = ("hardware=h100", "hardware.devices_per_run=16", "hardware.sharding=fsdp")
    with pytest.raises(SettingError, match="2 nodes x 8 devices") as caught:
        auto.settled(make_config("model=qwen-1.5b", "launcher=auto", *several))
    assert caught.value.nearest == "launcher=slurm, or hardware.devices_per_run=8"
