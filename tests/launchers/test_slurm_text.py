"""The sbatch text that runs are submitted with."""

import difflib
import math
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.commands import slurm_environment
from isosweep.config.launcher import overridden
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.launchers.sbatch import Shape, sbatch_text, shape_of
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.plan.cells import PlannedRun
from tests.conftest import isosweep, make_config, plan_of

GOLDEN = Path(__file__).parent
TINY = ("launcher=slurm", "budget=1e10")


HOUR = Shape(timeout_min=60, memory_mb=1024, lead_s=60)


def text_of(config: SweepConfig, shape: Shape = HOUR, directory: str = "/JOBS") -> str:
    name, tasks = "isosweep-BATCH", range(8)
    return sbatch_text(config, shape, name, Path(directory), tasks, parallel=4, after=("17",))


def options(config: SweepConfig) -> dict[str, str | None]:
    """sbatch's options in the text of an array, by name."""
    text = text_of(config)
    given = [line.removeprefix("#SBATCH --") for line in text.splitlines() if "#SBATCH" in line]
    parts = [(shlex.split(option)[0].partition("=")) for option in given]
    return {name: value if equals else None for name, equals, value in parts}


@pytest.fixture(scope="module")
def run() -> PlannedRun:
    return plan_of(make_config(*TINY)).runs[0]


SETTINGS = (
    "launcher.slurm.partition=[main,high]",
    "launcher.slurm.account=lab",
    "launcher.slurm.gpus_per_node=1",
    "launcher.slurm.setup=[module load cuda]",
    "launcher.slurm.python='apptainer exec image.sif python'",
    "launcher.slurm.additional={constraint: h200, exclusive: null, comment: 'two words'}",
)
LARGE = ("model=qwen-32b", "hardware=h100", "generation=transformers")


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("run", SETTINGS),
        ("two_nodes", (*LARGE, "hardware.devices_per_run=16", "hardware.sharding=fsdp")),
    ],
)
def test_the_sbatch_text_is_the_golden_one(name: str, overrides: tuple[str, ...]) -> None:
    golden = GOLDEN / f"{name}.sbatch"
    config = make_config("launcher=slurm", *overrides)
    text = text_of(config, Shape(timeout_min=240, memory_mb=65536, lead_s=120))
    # The interpreter is another on each machine.
    text = text.replace(sys.executable, "/python")
    if os.environ.get("ISOSWEEP_ACCEPT_GOLDEN"):
        golden.write_text(text)
    diff = "\n".join(difflib.unified_diff(golden.read_text().splitlines(), text.splitlines()))
    assert not diff, f"{diff}\naccept it with ISOSWEEP_ACCEPT_GOLDEN=1"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("additional={gres:gpu:h100:1}", {"gres": "gpu:h100:1", "gpus-per-node": ...}),
        ("qos=low", {"qos": "low"}),
        ("requeue=false", {"no-requeue": None}),
        ("additional={mem-per-cpu:2G}", {"mem-per-cpu": "2G", "mem": ...}),
        ("additional={mem:false}", {"mem": ...}),
        ("additional={nice:100}", {"nice": "100"}),
    ],
)
def test_each_setting_is_the_option_of_its_name(settings: str, expected: dict[str, object]) -> None:
    given = [f"launcher.slurm.{setting}" for setting in settings.split()]
    found = options(make_config("launcher=slurm", *given))
    assert {name: found.get(name, ...) for name in expected} == expected


def test_a_job_has_the_time_memory_and_warning_that_its_run_is_planned_to_need(
    run: PlannedRun,
) -> None:
    config = make_config(*TINY)
    hour = replace(run, seconds=3600.0, num_steps=60, checkpoint_bytes=0.0)
    # 1.5 h and a quarter; a minute's step and a half is left when the signal comes early.
    shape = shape_of(config, hour)
    assert (shape.timeout_min, shape.lead_s) == (120, 240)
    assert shape.memory_mb == math.ceil(shape.memory_mb / 1024) * 1024
    slow = replace(hour, checkpoint_bytes=0.3e9 * 300)
    assert shape_of(config, slow).lead_s == 480
    # A step that no lead can wait for goes on from the last periodic checkpoint.
    assert shape_of(config, replace(hour, num_steps=1), longest_min=60) == Shape(
        timeout_min=60, memory_mb=shape.memory_mb, lead_s=1800
    )
    assert shape_of(config, hour, longest_min=45).timeout_min == 45
    long = replace(hour, seconds=200 * 3600.0, num_steps=7200)
    assert shape_of(config, long).timeout_min == 168 * 60
    given = make_config(*TINY, "launcher.slurm.timeout_min=30", "launcher.slurm.mem_gb=7.5")
    assert shape_of(given, hour) == Shape(timeout_min=30, memory_mb=7680, lead_s=240)


def test_no_line_of_a_script_comes_out_of_a_directorys_name() -> None:
    config = make_config(*TINY)
    with pytest.raises(SettingError, match="control character"):
        text_of(config, directory="/sweeps/x\ntouch OWNED #/jobs")


def test_a_submission_from_inside_a_job_takes_nothing_of_that_job() -> None:
    outside = {"PATH": "/bin", "SLURM_CONF": "c", "SLURM_JWT": "token"}
    inside = {**outside, "SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "9", "SRUN_DEBUG": "3"}
    assert slurm_environment(outside) == slurm_environment(inside)
    assert slurm_environment(inside).keys() == outside.keys() | {"SLURM_BITSTR_LEN"}


def test_settings_of_the_launcher_that_are_typed_count_when_a_sweep_is_resumed() -> None:
    stored = make_config("launcher=slurm", "launcher.slurm.partition=old", "launcher.slurm.qos=a")

    def resumed(*typed: str) -> tuple[str, list[str] | None, str | None, dict[str, object]]:
        asked = make_config(*typed)
        now = overridden(stored.launcher, asked.launcher, asked.given)
        return now.name, now.slurm.partition, now.slurm.qos, now.slurm.additional

    assert resumed("mode=resume") == ("slurm", ["old"], "a", {})
    assert resumed("launcher.slurm.partition=new") == ("slurm", ["new"], "a", {})
    assert resumed("launcher.slurm.additional={nice:1}") == ("slurm", ["old"], "a", {"nice": 1})
    assert resumed("launcher=local") == ("local", None, None, {})


def test_a_dry_run_prints_every_script_and_does_nothing(tmp_path: Path) -> None:
    done = isosweep(
        *("mode=launch", "dry_run=true", "launcher=slurm", "launcher.max_parallel=3"),
        "launcher.slurm.additional={exclusive: null}",
        cwd=tmp_path,
    )
    assert "18 of 18 runs would be submitted" in done.stdout
    assert "#SBATCH --array=0-17%3" in done.stdout
    assert "#SBATCH --exclusive\n" in done.stdout
    assert done.stdout.count("tiny-sort-n4-B4-s0-") == 1
    assert list(tmp_path.iterdir()) == []


def test_runs_of_one_shape_share_arrays_of_the_size_that_the_cluster_takes(
    run: PlannedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = SlurmLauncher(make_config(*TINY))
    monkeypatch.setattr(launcher, "max_batch", 2)
    long = replace(run, seconds=1e5)
    scripts = launcher.scripts([run, long, run, run, long], tmp_path)
    assert [runs for runs, _ in scripts] == [[run, run], [run], [long, long]]


def test_runs_under_max_parallel_share_arrays_that_have_room_for_the_longest(
    run: PlannedRun, tmp_path: Path
) -> None:
    launcher = SlurmLauncher(make_config(*TINY, "launcher.max_parallel=2"))
    long = replace(run, seconds=1e5)
    ((runs, text),) = launcher.scripts([long, run, run], tmp_path)
    assert runs == [long, run, run]
    assert "#SBATCH --array=0-2%2" in text
    assert next(iter(launcher.scripts([run], tmp_path)))[1].count("--time=30\n") == 1
    assert "--time=2880\n" in text
