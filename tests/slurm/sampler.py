"""A thread that compares each second what isosweep says of runs with what Slurm says of jobs.

Slurm is asked by a command of this module's own, read by its own few lines: what isosweep makes of
Slurm's answers is what is tested.
"""

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from isosweep.files import read_json
from isosweep.plan.tally import Standing
from isosweep.store.claims import names
from isosweep.store.paths import RunPaths
from isosweep.store.state import view_run
from tests.slurm.cluster import SlurmCluster

PERIOD_S = 1.0
# A worker that has said its last word still has an interpreter to leave, those of its other nodes
# too, and Slurm to notice it: seconds, on a machine where others take the processors too.
LEAVING_S = 30.0
# What a poll of the launchers may take at most (the 15 s), and this machine's slowness.
POLL_S = 20.0

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
WORKING = ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING")
FINAL = (
    Standing.DONE,
    Standing.DIVERGED,
    Standing.FAILED,
    Standing.CANCELLED,
    Standing.INTERRUPTED,
)

TWO_JOBS, FINAL_ALIVE = "two jobs", "final, and a job is alive"

# Every run's standing and what is noted with it, by its id.
Statuses = Callable[[], Mapping[str, tuple[Standing, str]]]


def contradiction(standing: Standing, states: Sequence[str]) -> str | None:
    """What is wrong with a run that is said to stand so while its jobs are in these states."""
    alive = [state for state in states if state in (*WAITING, *WORKING)]
    leaving = [state for state in states if state == "COMPLETING"]
    if len(alive) > 1:
        return TWO_JOBS
    if alive and standing in FINAL:
        return FINAL_ALIVE
    if not alive and not leaving and standing in (Standing.RUNNING, Standing.QUEUED):
        return "at work, and no job is alive"
    if standing is Standing.RUNNING and alive and alive[0] in WAITING:
        return "running, and its job waits"
    if standing is Standing.QUEUED and alive and alive[0] in WORKING:
        return "queued, and its job runs"
    return None


@dataclass
class Sampler:
    """Samples, in a thread, the runs of a sweep while its block lasts.

    `contradictions`: those that lasted longer than they may; `excused`: runs of which Slurm is
    known to say what is not so; `jobs`: by run, every job that was ever seen alive; `samples`: how
    many there were.
    """

    cluster: SlurmCluster
    runs: Path
    statuses: Statuses
    poll_s: float = POLL_S
    contradictions: list[str] = field(default_factory=list)
    jobs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    samples: int = 0
    excused: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._since: dict[tuple[str, str], float] = {}
        self._told: set[tuple[str, str]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(PERIOD_S):
            try:
                self._once()
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    def _once(self) -> None:
        before = job_states(self.cluster)
        standings = self.statuses() if before is not None else {}
        after = job_states(self.cluster)
        if before is None or after is None:
            # Slurm does not answer: there is nothing to compare with.
            self._since.clear()
            return
        found, now = jobs_of_runs(self.runs), time.monotonic()
        self.samples += 1
        lasting = {}
        for run, (standing, note) in standings.items():
            mine = found.get(run, [])
            was, is_now = ([states[j] for j in mine if j in states] for states in (before, after))
            self.jobs[run] |= {job for job in mine if after.get(job) in (*WAITING, *WORKING)}
            wrong = contradiction(standing, was)
            # What changed while it was looked at contradicts nothing; and what Slurm has not taken
            # yet, its driver keeps: it is queued there.
            if wrong is None or wrong != contradiction(standing, is_now):
                continue
            if standing is Standing.QUEUED and not_taken(self.runs / run):
                continue
            if run in self.excused:
                continue
            lasting[run, wrong] = since = self._since.get((run, wrong), now)
            allowed = LEAVING_S if wrong in (TWO_JOBS, FINAL_ALIVE) else self.poll_s
            if now - since > allowed and (run, wrong) not in self._told:
                self._told.add((run, wrong))
                told = f"{run}: {standing} ({note}): {wrong}, for {now - since:.0f} s: {is_now}"
                self.contradictions.append(told)
        self._since = lasting


def job_states(cluster: SlurmCluster) -> dict[str, str] | None:
    """State by job id, a task of an array as `17_3`; None where Slurm does not answer."""
    try:
        shown = cluster.run("squeue", "-h", "-a", "-r", "-o", "%i %T", timeout_s=5)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    return dict(line.split() for line in shown.splitlines())


def not_taken(run: Path) -> bool:
    """Whether the newest submission of the run at `run` has no job, so far as is known."""
    submission = view_run(RunPaths(run)).submission
    return submission is not None and submission.live and submission.job is None


def jobs_of_runs(runs: Path) -> dict[str, list[str]]:
    """By run id, the jobs of all its submissions."""
    jobs = {}
    for run in map(RunPaths, sorted(runs.glob("*"))):
        numbers = sorted(
            name.split(".")[0] for name in names(run.submissions) if name.endswith(".job.json")
        )
        documents = (read_json(run.submission(int(number), "job")) for number in numbers)
        jobs[run.run_id] = [document["job_id"] for document in documents if document]
    return jobs
