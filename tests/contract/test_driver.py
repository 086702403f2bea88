"""A driver outlives what a file system refuses for a while, and says so once."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import isosweep as door
from tests.conftest import SMALL, missing
from tests.contract.surface import isosweep

_SWEEP = ("budget=6.4e9", *SMALL, "grid.num_generations=[4]", "tracking=none", "sweep=s")
# Between the first try and the second.
_PAUSE_S = 10


@contextlib.contextmanager
def _mounted(mount: Path) -> Iterator[None]:
    """A small file system of its own at `mount`; skips where there can be none."""
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing("disk", f"cannot mount a tmpfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def _fill(mount: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = mount / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return filler


@contextlib.contextmanager
def _command(*overrides: str, cwd: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """The command, going on beside the test, and the file that it writes to."""
    written = cwd / "written"
    with written.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "isosweep", *overrides], cwd=cwd, stdout=output, stderr=output
        )
    try:
        yield process, written
    finally:
        process.kill()
        process.wait()


def _wait_for(condition: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "the driver has ended"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _records(sweeps: Path) -> list[dict[str, object]]:
    frame = door.open(sweeps / "s").records
    rows: list[dict[str, object]] = frame[["run_id", "step", "flops", "reward"]].to_dict("records")
    return rows


@pytest.mark.disk
def test_a_disk_that_is_full_for_a_while_ends_no_driver_and_changes_no_record(
    tmp_path: Path,
) -> None:
    plain, mount = tmp_path / "plain", tmp_path / "small"
    plain.mkdir()
    isosweep(*_SWEEP, cwd=plain)
    with _mounted(mount):
        full = (*_SWEEP, f"sweeps_dir={mount}")
        with _command(*full, cwd=tmp_path) as (process, written):
            _wait_for(lambda: any(mount.glob("runs/*/metrics/*.jsonl")), process)
            filler = _fill(mount)
            _wait_for(lambda: b"No space left" in written.read_bytes(), process)
            time.sleep(4)
            filler.unlink()
            assert process.wait(120) == 0, written.read_text()
            said = [
                line for line in written.read_text().splitlines() if str(mount / "runs") in line
            ]
            assert len([line for line in said if "waiting until that passes" in line]) == 1
            assert len([line for line in said if "works again" in line]) == 1
        assert _records(mount) == _records(plain / "sweeps")


def test_a_run_that_failed_is_tried_again_after_a_pause(tmp_path: Path) -> None:
    trains = tmp_path / "trains.py"
    trains.write_text(
        "import sys, time\nprint(time.time(), file=open('tries', 'a'))\nsys.exit(1)\n"
    )
    sweep = ("budget=1e4", "budget_unit=rollouts", "grid.seeds=[0]", "grid.problems_per_batch=[4]")
    command = f"trainer.command=[{sys.executable},{trains}]"
    done = isosweep(
        *sweep,
        "grid.num_generations=[4]",
        "trainer=command",
        command,
        "launcher.max_retries=1",
        "tracking=none",
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "tried 2 times" in done.stdout + done.stderr
    first, second = (float(line) for line in (tmp_path / "tries").read_text().split())
    assert second - first > _PAUSE_S


def test_ctrl_c_ends_a_driver_that_waits_for_its_disk(tmp_path: Path) -> None:
    with _command(*_SWEEP, cwd=tmp_path) as (process, written):
        sweeps = tmp_path / "sweeps"
        _wait_for(lambda: any(sweeps.glob("runs/*/metrics/*.jsonl")), process)
        sweeps.rename(tmp_path / "gone")
        _wait_for(lambda: b"No such file" in written.read_bytes(), process)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(120) == 130
    assert b"Traceback" not in written.read_bytes()
    assert not sweeps.exists()
