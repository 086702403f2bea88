"""Slurm's launcher against a real Slurm: arrays, logs, cancelling, answers that were lost."""

from pathlib import Path

import pytest

from isosweep.launchers.launcher import Observed, Order
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.store.attempts import Attempt, Status, create_attempt
from isosweep.store.paths import RunPaths
from tests.conftest import make_config, plan_of
from tests.runs import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("slurm_environment")]

TIMEOUT_S = 90.0
# A worker that needs no training stack: a shell that says which task it is.
SETTINGS = ("budget=1e10", "launcher=slurm", "launcher.slurm.cpus_per_task=1")


def launcher_of(tmp_path: Path, shell: str, *settings: str) -> SlurmLauncher:
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\n{shell}\n")
    worker.chmod(0o755)
    return SlurmLauncher(make_config(*SETTINGS, f"launcher.slurm.python={worker}", *settings))


def orders_of(tmp_path: Path, count: int, batch: str = "B") -> list[Order]:
    run = plan_of(make_config(*SETTINGS)).runs[0]
    # A blank and a per cent sign, as paths may have.
    root = tmp_path / "a b%c"
    orders = []
    for index in range(count):
        paths = RunPaths(root / "runs" / f"{batch}{index}")
        paths.root.mkdir(parents=True, exist_ok=True)
        attempt = create_attempt(paths, "slurm", str(root / "sweep"), {}, batch, index)
        assert attempt is not None
        orders.append(Order(attempt=attempt, run=run))
        orders[-1].logs.mkdir(parents=True)
    return orders


def submitted(launcher: SlurmLauncher, orders: list[Order]) -> list[Attempt]:
    assert launcher.submit(orders) == [None] * len(orders)
    return [order.attempt for order in orders]


def all_are(launcher: SlurmLauncher, attempts: list[Attempt], *statuses: str) -> list[Observed]:
    wait_for(lambda: {s.status for s in launcher.observe(attempts)} <= {*statuses}, TIMEOUT_S, 0.5)
    return launcher.observe(attempts)


def test_tasks_run_throttled_and_print_into_their_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = tmp_path / "alive"
    shell = f"mkdir -p {alive}/$SLURM_JOB_ID; ls {alive} | wc -l\n"
    shell += f"while [ ! -e {tmp_path}/over ]; do sleep 0.2; done; sleep 1\n"
    shell += f'rmdir {alive}/$SLURM_JOB_ID; echo "task $SLURM_ARRAY_TASK_ID"'
    launcher = launcher_of(tmp_path, shell, "launcher.max_parallel=2")
    orders = orders_of(tmp_path, 4)
    # Two arrays, of which the second begins after the first.
    monkeypatch.setattr(launcher, "max_batch", 2)
    attempts = submitted(launcher, orders)
    all_are(launcher, attempts[:2], "running")
    assert {seen.status for seen in launcher.observe(attempts[2:])} == {"pending"}
    (tmp_path / "over").touch()
    seen = all_are(launcher, attempts, "ended")
    assert {each.outcome for each in seen} == {Status.LOST}  # this worker says nothing of its end
    for index, order in enumerate(orders):
        (out,) = order.logs.glob("*.out")
        count, task = out.read_text().splitlines()
        assert task == f"task {index}"
        assert int(count) <= 2


def test_a_failing_line_of_setup_is_told_in_its_own_words(tmp_path: Path) -> None:
    setup = "launcher.slurm.setup=['. /no/such/environment']"
    launcher = launcher_of(tmp_path, "exit 1", setup)
    (seen,) = all_are(launcher, submitted(launcher, orders_of(tmp_path, 1)), "ended")
    assert seen.outcome is Status.FAILED
    assert "/no/such/environment: No such file or directory" in seen.reason


def test_stopping_tells_workers_and_cancels_what_waits_but_for_others(tmp_path: Path) -> None:
    shell = "trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.2; done"
    launcher = launcher_of(tmp_path, shell, "launcher.max_parallel=1")
    orders = orders_of(tmp_path, 4)
    states = submitted(launcher, orders)

    def printed() -> str:
        return "".join(path.read_text() for path in orders[0].logs.glob("*.out"))

    wait_for(lambda: "begun" in printed(), TIMEOUT_S, 0.5)
    stopped, left = states[:3], states[3:]
    assert launcher.stop(stopped) is None
    seen = all_are(launcher, stopped[:1], "ended")
    # Nobody cancelled it. Whether srun then fails, where the worker itself ends well, is a race.
    assert seen[0].outcome in (Status.LOST, Status.FAILED)
    assert "told" in printed()
    # Of waiting tasks that were cancelled Slurm has no trace.
    assert {each.outcome for each in all_are(launcher, stopped[1:], "missing")} == {
        Status.CANCELLED
    }
    # The one that was not to be stopped takes their place.
    all_are(launcher, left, "running")
    assert launcher.stop(left, kill=True) is None
    all_are(launcher, left, "ended", "missing")
