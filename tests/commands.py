"""Command lines in forks of one process that has imported their libraries, seconds saved in each.

The process is multiprocessing's fork server: a fresh interpreter that has done nothing but import,
has no threads, and ends with the tests. Each fork runs `isosweep.__main__.main`, as the installed
command does; its runs are forked from the same process.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import mock

import pytest

from isosweep.config import trust
from tests.composing import composed_once

_LIBRARIES = [
    "isosweep.__main__",
    "isosweep.analysis.report",
    "isosweep.tracking.mlflow",
    "isosweep.tracking.tracker",
    "mlflow",
    "submitit",
    "tests.commands",
    "tests.stack",
]


def forked(
    overrides: tuple[str, ...], cwd: Path, output: Path, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """The ended command with what it wrote, which is kept as `output`.out and `output`.err.

    Raises subprocess.TimeoutExpired after `timeout_s` seconds, when it has been killed.
    """
    files = (f"{output}.out", f"{output}.err")
    process = _start(overrides, cwd, files)
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(overrides, timeout_s)
    status = process.exitcode
    process.close()
    out, err = (Path(file).read_text() for file in files)
    return subprocess.CompletedProcess(overrides, status, out, err)


def in_process(overrides: tuple[str, ...], cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The command in this very process: for what ends before any run is started."""
    from hydra.core.global_hydra import GlobalHydra

    import isosweep.__main__ as program

    out, err = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    status = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["isosweep", *overrides])
        patch.setattr(program, "_jobs", [])
        patch.setattr(trust, "_FOREIGN", {})
        GlobalHydra.instance().clear()
        try:
            program.main()
        except SystemExit as left:
            status = int(left.code or 0)
        finally:
            GlobalHydra.instance().clear()
            for number, handler in before.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(overrides, status, out.getvalue(), err.getvalue())


class Command:
    """A command that goes on beside the test, with what of `subprocess.Popen` a test uses."""

    def __init__(self, *overrides: str, cwd: Path, output: Path) -> None:
        """`output`: what its files of written text are called, but for their ends."""
        self._files = (f"{output}.out", f"{output}.err")
        self._process = _start(overrides, cwd, self._files)
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def written(self) -> str:
        """What it has written so far."""
        return "".join(path.read_text() for path in map(Path, self._files) if path.exists())

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Its exit status, or the signal that killed it, negative."""
        self._process.join(timeout)
        status = self._process.exitcode
        assert status is not None, f"still running after {timeout} s:\n{self.written}"
        return status


def _start(overrides: tuple[str, ...], cwd: Path, files: tuple[str, str]) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    arguments = (overrides, str(cwd), files, dict(os.environ))
    process = context.Process(target=_command, args=arguments)
    process.start()
    return process


def _command(
    overrides: tuple[str, ...], cwd: str, files: tuple[str, str], environment: dict[str, str]
) -> None:
    """In the fork: become the command line."""
    for name, stream in zip(files, (sys.stdout, sys.stderr), strict=True):
        with Path(name).open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    # A shell that started the tests in the background has switched it off.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Its runs come from the server that it comes from, which has imported what they need.
    changed = mock.patch.object(forkserver._forkserver, "ensure_running")
    sys.argv = ["isosweep", *overrides]
    from isosweep.__main__ import main

    with composed_once(), changed:
        main()
