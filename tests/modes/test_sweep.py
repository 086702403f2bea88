"""Whole sweeps from the command line: real training, larger budgets, real failures and disks."""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from isosweep.store.claims import highest
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from isosweep.store.records import attempt_file, read_metrics, read_records
from tests.conftest import SMALL, isosweep, missing
from tests.modes.sweeps import QUIET, assert_same_records, runs, state_of
from tests.runs import reproducible

pytestmark = pytest.mark.train
SWEEP = ("budget=[6.4e9,1.28e10]", *SMALL, *QUIET)


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
        state = state_of(run)
        listed = [path.stat().st_size for path in kept if path.name != CHECKPOINT_FILES]
        assert state.checkpoint_bytes == sum(listed) > 0
        assert state.status == "finished"


def test_a_failing_run_is_reported_and_takes_nothing_else_down(
    straight: Path, tmp_path: Path
) -> None:
    broken, other = (RunPaths(tmp_path / "sweeps" / "runs" / r.run_id) for r in runs(straight))
    # A file where its checkpoints should go.
    broken.root.mkdir(parents=True)
    broken.checkpoints.write_text("in the way")
    settings = ("budget=6.4e9", *SMALL, *QUIET, "launcher.max_retries=0")
    done = isosweep(*settings, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"failed: {broken.run_id}" in done.stdout
    told = [line for line in done.stdout.splitlines() if " done: n=" in line]
    assert len(told) == 2, "a line for each run that is over, the last one too"
    assert state_of(other).status == "finished"


def test_garbage_in_a_runs_files_is_named_and_mended(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    first, second = runs(tmp_path)
    records = read_records(first.records).records
    first.attempt(1).write_text("{ garbage")
    first.spec.write_bytes(b"\x00\xff")
    done = isosweep(*SWEEP, cwd=tmp_path)
    assert f"warning: {first.attempt(1)}: not the state of a run" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    states = [state_of(run) for run in (first, second)]
    # The garbled run went on from its last checkpoint, where nothing was left to train.
    assert [(s.status, s.attempt) for s in states] == [("finished", 2), ("finished", 1)]
    assert read_records(first.records).records == records


def test_a_multirun_trains_its_runs_once_for_all_budgets(straight: Path, tmp_path: Path) -> None:
    done = isosweep("-m", "budget=6.4e9,1.28e10", *SMALL, *QUIET, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sweeps"]
    assert [run.run_id for run in runs(tmp_path)] == [run.run_id for run in runs(straight)]
    for run, reference in zip(runs(tmp_path), runs(straight), strict=True):
        assert highest(run.attempts) == 1
        assert reproducible(run) == reproducible(reference)
    # A sweep a job, and one over both budgets: the very sweep that asks for both at once.
    reports = {path.parent.parent.name for path in tmp_path.glob("sweeps/*/analysis/report.html")}
    (whole,) = {path.parent.name for path in straight.glob("sweeps/*/plan.json")}
    assert len(reports) == 3
    assert whole in reports
    assert f"over all budgets of these sweeps (6.4e+09, 1.28e+10): {tmp_path}" in done.stdout


@pytest.mark.long
def test_updates_that_share_rollouts_are_counted_with_them(tmp_path: Path) -> None:
    # The least budget that a whole number of these generations meets, and its double.
    budget = 6.4e9
    settings = (*SMALL, *QUIET, "recipe.num_iterations=2", "grid.num_generations=[2]")
    isosweep(f"budget={budget}", *settings, cwd=tmp_path)
    (plan_file,) = tmp_path.glob("sweeps/*/plan.json")
    cells = json.loads(plan_file.read_text())["cells"]
    assert cells
    for cell in cells:
        run = RunPaths(tmp_path / "sweeps" / "runs" / cell["run_id"])
        records = read_records(run.records).records
        assert all(record.step % 2 == 0 for record in records)
        last = records[-1]
        assert last.compute.generations == last.step / 2
        completions = cell["num_generations"] * cell["problems_per_batch"]
        assert last.compute.rollouts == completions * last.compute.generations
        # One more log-probability pass a generation, and two updates of three passes' cost.
        assert last.compute.training_flops == pytest.approx(6 * last.compute.old_policy_flops)
        assert abs(last.compute.flops - budget) <= last.compute.flops / last.compute.generations
        steps = [line["step"] for line in read_metrics(run.metrics, run.records)]
        assert steps == list(range(1, last.step + 1))
    more = (f"budget=[{budget},{2 * budget}]", *settings)
    (tmp_path / "straight").mkdir()
    isosweep(*more, cwd=tmp_path / "straight")
    isosweep(*more, cwd=tmp_path)
    assert_same_records(tmp_path, tmp_path / "straight")


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
