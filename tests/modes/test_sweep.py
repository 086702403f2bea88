"""Whole sweeps from the command line: real training, real kills, real disks."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_metrics, read_records
from isosweep.store.state import read_state
from tests.conftest import SMALL, isosweep, missing, shared_sweep
from tests.runs import reproducible, wait_for

pytestmark = pytest.mark.train
QUIET = ("tracking=none",)


def runs(cwd: Path) -> list[RunPaths]:
    return [RunPaths(path) for path in sorted((cwd / "sweeps" / "runs").iterdir())]


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted sweep to 2e10 FLOPs."""

    def make(cwd: Path) -> None:
        # As users start it.
        isosweep("budget=[1e10,2e10]", *SMALL, *QUIET, cwd=cwd, fresh=True)

    return shared_sweep(tmp_path_factory, "straight", make)


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


def test_a_multirun_extends_runs_and_trains_nothing_twice(straight: Path, tmp_path: Path) -> None:
    isosweep("-m", "budget=1e10,2e10", *SMALL, *QUIET, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sweeps"]
    assert [run.run_id for run in runs(tmp_path)] == [run.run_id for run in runs(straight)]
    for run, reference in zip(runs(tmp_path), runs(straight), strict=True):
        lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
        steps = [line["step"] for line in lines]
        assert {line["attempt"] for line in lines} == {1, 2}
        assert steps == list(range(1, max(steps) + 1)), "a step was trained twice or never"
        assert reproducible(run) == reproducible(reference)


def test_a_killed_worker_is_retried_and_changes_no_record(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = _wait_until_some_run_trains(tmp_path)
    state = read_state(run)
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    assert process.wait(timeout=300) == 0, _output(tmp_path)
    _assert_same_records(tmp_path, straight)
    after = read_state(run)
    assert after is not None
    assert after.attempt > state.attempt


def test_a_killed_sweep_is_finished_by_resume(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = _wait_until_some_run_trains(tmp_path)
    process.kill()
    process.wait()
    state = read_state(run)
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    (sweep,) = (path.parent for path in tmp_path.glob("sweeps/*/plan.json"))
    isosweep("mode=resume", f"sweep_dir={sweep}", cwd=tmp_path)
    _assert_same_records(tmp_path, straight)


def test_ctrl_c_leaves_checkpoints_and_resume_trains_nothing_twice(
    straight: Path, tmp_path: Path
) -> None:
    process = _start(tmp_path)
    run = _wait_until_some_run_trains(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130, _output(tmp_path)
    assert "mode=resume" in _output(tmp_path)
    state = read_state(run)
    assert state is not None
    assert (state.status, state.reason) == ("interrupted", "stopped by SIGTERM")
    assert complete_checkpoints(run.attempt_checkpoints(1)).keys() == {state.step}
    (sweep,) = (path.parent for path in tmp_path.glob("sweeps/*/plan.json"))
    isosweep("mode=resume", f"sweep_dir={sweep}", cwd=tmp_path)
    _assert_same_records(tmp_path, straight)
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))


def _start(cwd: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "isosweep", "budget=[1e10,2e10]", *SMALL, *QUIET]
    with (cwd.parent / f"{cwd.name}.log").open("w") as log:
        return subprocess.Popen(
            command,
            cwd=cwd,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A shell that started the tests in the background has switched SIGINT off.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def _output(cwd: Path) -> str:
    return (cwd.parent / f"{cwd.name}.log").read_text()


def _wait_until_some_run_trains(cwd: Path) -> RunPaths:
    begun: list[RunPaths] = []

    def training() -> bool:
        if (cwd / "sweeps" / "runs").exists():
            begun[:] = [r for r in runs(cwd) if len(read_metrics(r.metrics, r.records)) > 3]
        return bool(begun)

    wait_for(training)
    return begun[0]


def _assert_same_records(cwd: Path, reference: Path) -> None:
    assert [run.run_id for run in runs(cwd)] == [run.run_id for run in runs(reference)]
    for run, other in zip(runs(cwd), runs(reference), strict=True):
        assert reproducible(run) == reproducible(other)


def test_runs_that_differ_in_n_see_the_same_problems(straight: Path) -> None:
    starts = [read_records(run.records).records[0] for run in runs(straight)]
    assert len(starts) == 2
    assert starts[0].successes == starts[1].successes
    assert starts[0].step == 0


def test_updates_that_share_rollouts_are_counted_with_them(tmp_path: Path) -> None:
    isosweep("budget=1e10", *SMALL, *QUIET, "recipe.num_iterations=2", cwd=tmp_path)
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
        assert abs(last.compute.flops - 1e10) <= last.compute.flops / last.compute.generations
        steps = [line["step"] for line in read_metrics(run.metrics, run.records)]
        assert steps == list(range(1, last.step + 1))
    more = ("budget=[1e10,2e10]", *SMALL, *QUIET, "recipe.num_iterations=2")
    (tmp_path / "straight").mkdir()
    isosweep(*more, cwd=tmp_path / "straight")
    isosweep(*more, cwd=tmp_path)
    _assert_same_records(tmp_path, tmp_path / "straight")


def test_a_failing_run_is_reported_and_takes_nothing_else_down(tmp_path: Path) -> None:
    isosweep("mode=plan", "budget=1e10", *SMALL, *QUIET, cwd=tmp_path)
    plan = json.loads(next(tmp_path.glob("sweeps/*/plan.json")).read_text())
    broken = plan["runs"][0]["run_id"]
    # A file where its checkpoints should go.
    (tmp_path / "sweeps" / "runs" / broken).mkdir()
    (tmp_path / "sweeps" / "runs" / broken / "checkpoints").write_text("in the way")
    done = isosweep(
        "budget=1e10", *SMALL, *QUIET, "launcher.max_retries=0", cwd=tmp_path, check=False
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
        settings: tuple[str, ...] = ("budget=1e10", *SMALL, *QUIET, "grid.num_generations=[4]")
        settings = (*settings, f"sweeps_dir={mount}", "launcher.max_retries=0")
        isosweep(*settings, cwd=tmp_path)
        (run,) = (RunPaths(path) for path in (mount / "runs").iterdir())
        before = run.records.read_bytes()
        filler = mount / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        sweep = next(mount.glob("*/plan.json")).parent
        more = tuple(s.replace("budget=1e10", "budget=2e10") for s in settings)
        done = isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path, check=False)
        assert done.returncode != 0
        assert run.records.read_bytes().startswith(before)
        filler.unlink()
        isosweep(*more, f"sweep_dir={sweep}-2", cwd=tmp_path)
        assert run.records.read_bytes().startswith(before)
        assert len(run.records.read_bytes()) > len(before)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
