"""Output to somebody who has left, or who does not read what is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modes.looked_after import logged, submitted, sweep_in


def _command(
    cwd: Path, *overrides: str, redirected: str = "", **environment: str
) -> tuple[int, str]:
    """Exit status and standard error of a shell that runs isosweep with a redirection."""
    line = f'"$0" -m isosweep "$@" {redirected}'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, sys.executable, *overrides],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("redirection", ["| true", "| head -1", ">&-"])
def test_a_reader_that_leaves_is_no_error(redirection: str, tmp_path: Path) -> None:
    sweep_in(tmp_path / "sweeps")
    name = next(path.name for path in (tmp_path / "sweeps").iterdir() if path.name != "runs")
    status, error = _command(tmp_path, "mode=status", f"sweep_dir={name}", redirected=redirection)
    assert (status, error) == (0, "")


def test_what_the_output_cannot_encode_is_escaped(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    run = sweep.paths.run(sweep.plan.runs[0].run_id)
    submitted(run)
    logged(run, "1.out", "100% █")
    overrides = ("mode=logs", f"runs={sweep.plan.runs[0].run_id}", f"sweep_dir={sweep.paths.root}")
    status, error = _command(tmp_path, *overrides, PYTHONIOENCODING="ascii")
    assert (status, error) == (0, "")
