"""How often a driver calls Slurm's commands in steady state, by how many runs are live."""

import os
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from isosweep.modes.follow import make_queue
from isosweep.store.attempts import Attempt, begin, newest
from isosweep.store.paths import RunPaths
from launching.sweeps import Clock, finish, make_sweep, memory, on_slurm

# Each notes that it was called. sbatch counts jobs; the others answer what a file says.
_NOTE = '#!/bin/sh\necho "${0##*/}" >> "$FAKE_SLURM/calls"\n'
_SBATCH = (
    'jobs=$(cat "$FAKE_SLURM/jobs" 2>/dev/null || echo 0)\n'
    'echo $((jobs + 1)) | tee "$FAKE_SLURM/jobs"\n'
)
_ANSWER = 'cat "$FAKE_SLURM/${0##*/}" 2>/dev/null || true\n'
COMMANDS = ("sbatch", "squeue", "scontrol", "scancel")
# Seconds between two events: runs that end, and every third time a job that dies without a word.
_EVENT_S = 20.0


class FakeSlurm:
    """Commands of Slurm, in `directory`, that answer from files and keep count of their calls.

    On one machine 2,000 jobs cannot be had: the questions and what is made of the answers are real.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.environment = {
            "FAKE_SLURM": str(directory),
            "PATH": os.pathsep.join([str(directory / "bin"), os.environ["PATH"]]),
        }
        (directory / "bin").mkdir()
        for name in COMMANDS:
            script = directory / "bin" / name
            script.write_text(_NOTE + (_SBATCH if name == "sbatch" else _ANSWER))
            script.chmod(0o755)
        (directory / "scontrol").write_text("MaxArraySize = 1001\n")

    def calls(self) -> Counter[str]:
        """How often each command was called so far."""
        log = self._directory / "calls"
        return Counter(log.read_text().split() if log.exists() else [])

    def tell(self, command: str, rows: str) -> None:
        """What a command answers from now on."""
        (self._directory / command).write_text(rows)


class Cluster:
    """The jobs of runs: all run until they end."""

    def __init__(self, slurm: FakeSlurm, runs: list[RunPaths]) -> None:
        self._slurm, self._runs = slurm, runs
        self._working: dict[str, Attempt] = {}
        self._dead: dict[str, Attempt] = {}

    def begin(self) -> None:
        """Every job that was submitted runs, and its worker is at it."""
        for run in self._runs:
            attempt = newest(run)
            if attempt is not None and attempt.live and attempt.worker is None:
                # As if each batch were a job of its own.
                job = f"{int(attempt.batch[-8:], 16)}_{attempt.index}"
                self._working[job] = begin(attempt, job)
        rows = [
            f"{job}|{state}|None|isosweep-{of.batch}\n"
            for state, jobs in (("RUNNING", self._working), ("FAILED", self._dead))
            for job, of in jobs.items()
        ]
        self._slurm.tell("squeue", "".join(rows))

    def end(self) -> None:
        """A worker ends its run, and its job leaves the queue."""
        finish(self._working.pop(next(iter(self._working))))

    def die(self) -> None:
        """A job ends without a word of its worker."""
        job, attempt = self._working.popitem()
        self._dead[job] = attempt


def calls_a_minute(live: int, minutes: float) -> Counter[str]:
    """How often each command is called by a driver of `live` runs, in all."""
    with (
        memory() as directory,
        patch("time.monotonic", Clock()) as clock,
    ):
        slurm = FakeSlurm(directory)
        with patch.dict(os.environ, slurm.environment):
            sweep = make_sweep(directory, live, *on_slurm(Path("none")))
            cluster = Cluster(slurm, [sweep.paths.run(run.run_id) for run in sweep.runs])
            queue = make_queue(sweep, Console())
            while queue.waiting:
                queue.step()
            cluster.begin()
            begun, events, before = clock.now, 0, slurm.calls()
            while clock.now < begun + minutes * 60:
                queue.step()
                clock.now += queue.pause_s
                if clock.now > begun + (events + 1) * _EVENT_S:
                    events += 1
                    cluster.die() if events % 3 == 0 else cluster.end()
                    cluster.begin()
            assert len(queue.active) > live - events - 1
            return slurm.calls() - before


def table(sizes: list[int], minutes: float) -> dict[str, float]:
    """Print calls a minute for each number of live runs; the most of those that count."""
    print(f"calls of Slurm's commands a minute, over {minutes:g} minutes of a driver's time")
    print(f"{'live runs':>10}{'in all':>8}  of them")
    most = 0.0
    for live in sizes:
        calls = calls_a_minute(live, minutes)
        # What is submitted again is no part of following.
        steady = sum(calls.values()) - calls["sbatch"]
        most = max(most, steady / minutes)
        told = ", ".join(f"{name} {calls[name] / minutes:.1f}" for name in sorted(calls))
        print(f"{live:10,}{steady / minutes:8.1f}  {told}")
    return {"calls": most}
