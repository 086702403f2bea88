"""`launcher=ray` with a client that answers, refuses and hangs as Ray's does."""

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isosweep.config.launcher import RayConfig
from isosweep.errors import PreflightError
from isosweep.launchers import ray as module
from isosweep.launchers.launcher import Order, Refused
from isosweep.launchers.ray import RayLauncher, ray_client, submission_id
from isosweep.store.attempts import create_attempt
from isosweep.store.paths import RunPaths
from tests.launchers.fake import the_plan


@dataclass
class Client:
    """`jobs`: the status of each, by id. `error`: what every call raises."""

    jobs: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def submit_job(self, **asked: Any) -> str:
        self._answer()
        self.asked.append(asked)
        self.jobs[asked["submission_id"]] = "PENDING"
        return str(asked["submission_id"])

    def list_jobs(self) -> list[SimpleNamespace]:
        self._answer()
        return [SimpleNamespace(submission_id=i, status=s) for i, s in self.jobs.items()]

    def stop_job(self, job_id: str) -> bool:
        self._answer()
        if job_id not in self.jobs:
            raise RuntimeError(f"Request failed with status code 404: Job {job_id} does not exist")
        self.jobs[job_id] = "STOPPED"
        return True

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(module, "ray_client", lambda: made)
    return made


@pytest.fixture
def launcher(client: Client) -> RayLauncher:
    return RayLauncher(RayConfig(cpus=2, mem_gb=3), gpus=1, places=False)


def order_in(root: Path, run_id: str = "Qwen2.5_1.5B-math-n16") -> Order:
    run = RunPaths(root / "it's a $HOME (1)" / "runs" / run_id)
    run.root.mkdir(parents=True)
    attempt = create_attempt(run, "ray", str(root), {}, "batch")
    assert attempt is not None
    order = Order(attempt=attempt, run=the_plan().runs[0])
    order.logs.mkdir(parents=True)
    return order


def test_a_job_asks_for_what_its_run_needs_and_prints_into_its_logs(
    launcher: RayLauncher, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "a worker"
    worker.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$PYTHONPATH" "$@"\necho wrong >&2\n')
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    monkeypatch.setenv("PYTHONPATH", "/a b")
    monkeypatch.chdir(tmp_path)
    order = order_in(tmp_path)
    launcher.submit([order])
    (asked,) = client.asked
    needs = [asked[f"entrypoint_{name}"] for name in ("num_cpus", "num_gpus", "memory")]
    assert needs == [2, 1, 3 * 10**9]
    entrypoint = asked["entrypoint"]
    subprocess.run(entrypoint, shell=True, check=True, cwd="/", env={"PATH": "/usr/bin:/bin"})
    words = [str(tmp_path), "/a b", "-P", "-m", "isosweep.training", str(order.attempt.path)]
    assert (order.logs / "job.out").read_text().splitlines() == words
    assert (order.logs / "job.err").read_text() == "wrong\n"
    assert shlex.quote(str(worker)) in entrypoint


@pytest.mark.parametrize(
    ("said", "status", "outcome"),
    [
        ("PENDING", "pending", "lost"),
        ("RUNNING", "running", "lost"),
        ("SUCCEEDED", "ended", "lost"),
        ("STOPPED", "ended", "lost"),
        ("FAILED", "ended", "failed"),
        ("SOMETHING NEW", "unknown", "lost"),
    ],
)
def test_each_status_of_ray_is_known(
    said: str, status: str, outcome: str, client: Client, launcher: RayLauncher, tmp_path: Path
) -> None:
    order = order_in(tmp_path)
    client.jobs[submission_id(order.attempt)] = said
    (observed,) = launcher.observe([order.attempt])
    assert (observed.status, observed.outcome, observed.reason) == (status, outcome, said)
    assert observed.job_id == submission_id(order.attempt)
    client.jobs.clear()
    assert launcher.observe([order.attempt])[0].status == "missing"


def test_without_an_answer_nothing_is_concluded(
    client: Client, launcher: RayLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = order_in(tmp_path, "a"), order_in(tmp_path, "b")
    client.error = RuntimeError("Request failed with status code 500:\nthe head is full")
    refused = Refused(reason="the head is full", passing=True)
    assert launcher.submit([first, second]) == [refused] * 2
    # One whose answer was lost is there when it is tried again.
    client.error = RuntimeError("Job with submission_id isosweep-batch-0 already exists")
    assert launcher.submit([first]) == [None]
    client.error = RuntimeError("Request failed with status code 500:\nthe head is full")
    (observed,) = launcher.observe([first.attempt])
    assert (observed.status, observed.reason) == ("unknown", "the head is full")
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.1)
    monkeypatch.setattr(Client, "list_jobs", lambda self: time.sleep(1))
    (observed,) = launcher.observe([first.attempt])
    assert (observed.status, observed.reason) == ("unknown", "no answer in 0.1 s")


def test_jobs_are_stopped_by_their_ids(
    client: Client, launcher: RayLauncher, tmp_path: Path
) -> None:
    order = order_in(tmp_path)
    # A cluster that was started anew has no job to stop.
    assert launcher.stop([order.attempt]) is None
    launcher.submit([order])
    assert launcher.stop([order.attempt]) is None
    assert launcher.observe([order.attempt])[0].status == "ended"
    client.error = ConnectionError("refused")
    assert "refused" in (launcher.stop([order.attempt]) or "")


def test_a_missing_ray_or_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise ConnectionError("Failed to connect to Ray at address: http://h:8265.")

    monkeypatch.setitem(
        sys.modules, "ray.job_submission", SimpleNamespace(JobSubmissionClient=refuses)
    )
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    with pytest.raises(PreflightError, match=r"Failed to connect.*\n?.*RAY_API_SERVER_ADDRESS"):
        ray_client()
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(PreflightError, match=r"pip install 'isosweep\[ray\]'"):
        ray_client()
