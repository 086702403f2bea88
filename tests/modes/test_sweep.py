"""Whole sweeps from the command line: real training, real failures, real disks."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from isosweep.store.records import attempt_file, read_records
from isosweep.store.state import read_state
from tests.conftest import SMALL, isosweep, missing
from tests.modes.sweeps import QUIET, runs
from tests.runs import wait_for

pytestmark = pytest.mark.train


def test_a_sweep_leaves_nothing_but_its_directory(straight: Path) -> None:
    assert [path.name for path in straight.iterdir()] == ["sweeps"]


def test_every_cell_spends_its_budget_by_measured_compute(straight: Path) -> None:
    (plan_file,) = straight.glob("sweeps/*/plan.json")
    plan = json.loads(plan_file.read_text())
    assert plan["cells"]
    for cell in plan["cells"]:
        run = RunPaths(straight / "sweeps" / "runs" / cell["run_id"])
        spent = [record.compute.flops for record in read_records(run.records).records]
        step = max(record.step for record in read_records(run.records).records)
        nearest = min(abs(flops - cell["budget"]) for flops in spent)
        assert nearest <= max(spent) / step


def test_runs_that_differ_in_n_see_the_same_problems(straight: Path) -> None:
    starts = [read_records(run.records).records[0] for run in runs(straight)]
    assert len(starts) == 2
    assert starts[0].successes == starts[1].successes
    assert starts[0].step == 0


def test_a_run_records_what_its_checkpoints_take(straight: Path) -> None:
    for run in runs(straight):
        kept = run.checkpoints.glob("*/checkpoint-*/*")
        state = read_state(run)
        assert state is not None
        listed = [path.stat().st_size for path in kept if path.name != CHECKPOINT_FILES]
        assert state.checkpoint_bytes == sum(listed) > 0
        assert state.status == "finished"


def test_a_failing_run_is_reported_and_takes_nothing_else_down(tmp_path: Path) -> None:
    isosweep("mode=plan", "budget=6.4e9", *SMALL, *QUIET, cwd=tmp_path)
    plan = json.loads(next(tmp_path.glob("sweeps/*/plan.json")).read_text())
    broken = plan["runs"][0]["run_id"]
    # A file where its checkpoints should go.
    (tmp_path / "sweeps" / "runs" / broken).mkdir()
    (tmp_path / "sweeps" / "runs" / broken / "checkpoints").write_text("in the way")
    done = isosweep(
        "budget=6.4e9", *SMALL, *QUIET, "launcher.max_retries=0", cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert f"failed: {broken}" in done.stdout
    told = [line for line in done.stdout.splitlines() if " done: n=" in line]
    assert len(told) == len(plan["runs"]), "a line for each run that is over, the last one too"
    others = [read_state(run) for run in runs(tmp_path) if run.run_id != broken]
    assert others
    assert all(state is not None and state.status == "finished" for state in others)


def test_garbage_in_a_runs_files_is_named_and_mended(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    first, second = runs(tmp_path)
    records = read_records(first.records).records
    first.attempt(1).write_text("{ garbage")
    first.spec.write_bytes(b"\x00\xff")
    settings = ("budget=[6.4e9,1.28e10]", *SMALL, *QUIET)
    done = isosweep(*settings, cwd=tmp_path)
    assert f"warning: {first.attempt(1)}: not the state of a run" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    states = [read_state(run) for run in (first, second)]
    assert [state.status for state in states if state is not None] == ["finished"] * 2
    # The garbled run went on from its last checkpoint, where nothing was left to train.
    assert [state.attempt for state in states if state is not None] == [2, 1]
    assert read_records(first.records).records == records


@pytest.mark.disk
def test_a_disk_that_fills_up_in_mid_run_ends_in_a_line_with_the_path(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    with mounted(mount, "24m"):
        settings = ("budget=1e12", *SMALL, *QUIET, "grid.num_generations=[4]")
        once = (f"sweeps_dir={mount}", "launcher.max_retries=0")
        words = [sys.executable, "-m", "isosweep", *settings, *once]
        driver = subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: any(mount.glob("runs/*/metrics/*.jsonl")))
        fill(mount)
        stdout, stderr = driver.communicate(timeout=120)
    assert driver.returncode == 1
    assert "Traceback" not in stderr
    (line,) = [line for line in (stdout + stderr).splitlines() if "No space left" in line]
    assert str(mount / "runs") in line


@contextlib.contextmanager
def mounted(mount: Path, size: str) -> Iterator[None]:
    """A file system of its own at `mount`, as large as `size`; skips where there can be none."""
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing("disk", f"cannot mount a tmpfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(mount: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = mount / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return filler


@pytest.mark.disk
def test_a_full_disk_loses_no_record_already_written(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    with mounted(mount, "24m"):
        settings: tuple[str, ...] = ("budget=6.4e9", *SMALL, *QUIET, "grid.num_generations=[4]")
        settings = (*settings, f"sweeps_dir={mount}", "launcher.max_retries=0")
        isosweep(*settings, cwd=tmp_path)
        (run,) = (RunPaths(path) for path in (mount / "runs").iterdir())
        log = attempt_file(run.records, 1)
        before = log.read_bytes()
        filler = fill(mount)
        sweep = next(mount.glob("*/plan.json")).parent
        more = tuple(s.replace("budget=6.4e9", "budget=1.28e10") for s in settings)
        done = isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path, check=False)
        assert done.returncode != 0
        assert log.read_bytes() == before
        records = len(read_records(run.records).records)
        filler.unlink()
        isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path)
        assert log.read_bytes() == before
        assert len(read_records(run.records).records) > records
