"""Runs as jobs of a Ray cluster, by Ray's own client (ray.job_submission)."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from isosweep.config.launcher import RayConfig
from isosweep.errors import PreflightError
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.store.attempts import Attempt, LauncherName, Status

# Seconds for an answer. Ray's client waits for ever, and a head node that is restarted may not
# answer for a minute.
_TIMEOUT_S = 60.0
# Seconds from SIGTERM to SIGKILL after a job is stopped; Ray's own 3 end most steps.
_STOP_WAIT_S = 300
# Ray's JobStatus, and what each means.
_STATUS = {
    "PENDING": Observed(status="pending", reason="PENDING"),
    "RUNNING": Observed(status="running", reason="RUNNING"),
    "SUCCEEDED": Observed(status="ended", reason="SUCCEEDED"),
    "STOPPED": Observed(status="ended", reason="STOPPED"),
    "FAILED": Observed(status="ended", reason="FAILED", outcome=Status.FAILED),
}


def ray_client() -> Any:
    """A client of the cluster that RAY_API_SERVER_ADDRESS or RAY_ADDRESS names, or of this
    machine's. Raises PreflightError without Ray, or where no cluster answers."""
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        missing = [("the package ray (launcher=ray)", "pip install 'isosweep[ray]'")]
        raise PreflightError(missing) from None
    try:
        return _answer(JobSubmissionClient)
    except Exception as error:
        what = f"a Ray cluster that answers ({_words(error)})"
        remedy = "start one, or set RAY_API_SERVER_ADDRESS=http://HEAD:8265"
        raise PreflightError([(what, remedy)]) from None


def submission_id(attempt: Attempt) -> str:
    """What Ray calls the attempt's job: `batch` is used once, and `index` once in it."""
    return f"isosweep-{attempt.batch}-{attempt.index}"


class RayLauncher(Launcher):
    """Submits, observes and stops jobs of one node with `gpus` GPUs."""

    name: LauncherName = "ray"
    detaches = True
    poll_s = 5.0

    def __init__(self, config: RayConfig, gpus: int, *, places: bool) -> None:
        """`places`: whether `launcher.max_parallel` limits the runs. Raises as `ray_client`."""
        self._config, self._gpus, self.places = config, gpus, places
        self._client = ray_client()

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Submit the jobs one by one; after the first refusal the rest is kept for later."""
        answers: list[Refused | None] = []
        for order in orders:
            last = answers[-1] if answers else None
            answers.append(last or self._submit(order))
        return answers

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """The status of each job, from one list of all jobs."""
        try:
            jobs = _answer(self._client.list_jobs)
        except Exception as error:
            return [Observed(status="unknown", reason=_words(error)) for _ in attempts]
        found = {job.submission_id: str(getattr(job.status, "value", job.status)) for job in jobs}
        return [_observed(submission_id(attempt), found) for attempt in attempts]

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Have Ray send SIGTERM, and SIGKILL 300 s later, whether `kill` is set or not."""
        wrong = []
        for job in map(submission_id, attempts):
            try:
                _answer(partial(self._client.stop_job, job))
            except Exception as error:
                # A cluster that was started anew does not know it.
                if "does not exist" not in str(error):
                    wrong.append(f"{job}: {_words(error)}")
        return "; ".join(wrong) or None

    def _submit(self, order: Order) -> Refused | None:
        asked = {
            "submission_id": submission_id(order.attempt),
            "entrypoint": _entrypoint(order),
            "entrypoint_num_cpus": self._config.cpus,
            "entrypoint_num_gpus": self._gpus,
            "entrypoint_memory": self._config.mem_gb * 10**9,
            "metadata": {"run": order.attempt.run.run_id},
            "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(_STOP_WAIT_S)}},
        }
        try:
            _answer(partial(self._client.submit_job, **asked))
        except TimeoutError:
            # Ray may have taken it all the same: it is looked for.
            return None
        except Exception as error:
            # One whose answer was lost is there, when it is tried again.
            known = "already exists" in str(error)
            return None if known else Refused(reason=_words(error), passing=True)
        return None


def _observed(job: str, found: dict[str, str]) -> Observed:
    status = found.get(job)
    if status is None:
        return Observed(status="missing", reason="Ray does not know the job")
    return replace(_STATUS.get(status, Observed(status="unknown", reason=status)), job_id=job)


def _entrypoint(order: Order) -> str:
    """Return the shell command that starts the worker, with its output in the run's logs."""
    path = os.environ.get("PYTHONPATH")
    worker = [sys.executable, "-P", "-m", "isosweep.training", str(order.attempt.path)]
    logs = shlex.quote(str(order.logs / "job"))
    lines = [
        f"exec >>{logs}.out 2>>{logs}.err </dev/null",
        f"cd {shlex.quote(str(Path.cwd()))}",
        *([f"export PYTHONPATH={shlex.quote(path)}"] if path else []),
        f"exec {shlex.join(worker)}",
    ]
    return "\n".join(lines)


def _answer(ask: Callable[[], Any]) -> Any:
    """Return what `ask` returns, or raise what it raises; TimeoutError after _TIMEOUT_S."""
    answers: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"no answer in {_TIMEOUT_S:g} s")
    return answers[0]


def _words(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[-1] if lines else type(error).__name__)[-400:]
