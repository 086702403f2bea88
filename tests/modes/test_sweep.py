"""Whole sweeps from the command line: real training, real failures, real disks."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.store.state import read_state
from tests.conftest import SMALL, isosweep, missing
from tests.modes.sweeps import QUIET, runs

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
    others = [read_state(run) for run in runs(tmp_path) if run.run_id != broken]
    assert others
    assert all(state is not None and state.status == "finished" for state in others)


@pytest.mark.disk
def test_a_full_disk_loses_no_record_already_written(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        missing("disk", f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        settings: tuple[str, ...] = ("budget=6.4e9", *SMALL, *QUIET, "grid.num_generations=[4]")
        settings = (*settings, f"sweeps_dir={mount}", "launcher.max_retries=0")
        isosweep(*settings, cwd=tmp_path)
        (run,) = (RunPaths(path) for path in (mount / "runs").iterdir())
        before = run.records.read_bytes()
        filler = mount / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        sweep = next(mount.glob("*/plan.json")).parent
        more = tuple(s.replace("budget=6.4e9", "budget=1.28e10") for s in settings)
        done = isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path, check=False)
        assert done.returncode != 0
        assert run.records.read_bytes().startswith(before)
        filler.unlink()
        isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path)
        assert run.records.read_bytes().startswith(before)
        assert len(run.records.read_bytes()) > len(before)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
