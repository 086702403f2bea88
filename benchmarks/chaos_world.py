"""Two sweeps that share runs, their drivers and their workers: where chaos happens."""

import contextlib
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.store.attempts import Attempt, Process, Status, newest
from isosweep.store.paths import RunPaths

if TYPE_CHECKING:
    from tests.slurm.cluster import SlurmCluster

SETTINGS = (
    "grid.num_generations=[2,4]",
    "grid.problems_per_batch=[4]",
    "grid.tolerance=0.02",
    "evaluation.samples_per_problem=2",
    "task.num_eval_problems=32",
    "tracking=none",
    # What was trained is kept soon, and no number of kills gives a run up.
    "checkpoint.min_interval_s=2",
    "checkpoint.share=0.5",
    "launcher.max_retries=1000",
    "launcher.max_parallel=6",
    "launcher.stop_grace_s=20",
)


@dataclass
class World:
    """Where the sweeps are, and what has happened to them."""

    directory: Path
    chance: random.Random
    launcher: tuple[str, ...]
    seeds: int
    environment: dict[str, str]
    cluster: "SlurmCluster | None" = None
    drivers: dict[str, list["subprocess.Popen[bytes]"]] = field(
        default_factory=lambda: defaultdict(list)
    )
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    hit: list[tuple[str, RunPaths, float]] = field(default_factory=list)
    wake: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    together: float = 0.0

    @property
    def sweeps(self) -> dict[str, tuple[str, ...]]:
        """The overrides of both: they share half of their seeds, one of them to half the budget."""
        first = ",".join(str(seed) for seed in range(2 * self.seeds))
        second = ",".join(str(seed) for seed in range(self.seeds, 3 * self.seeds))
        return {
            "first": ("budget=6.4e9", f"grid.seeds=[{first}]"),
            "second": ("budget=[6.4e9,1.28e10]", f"grid.seeds=[{second}]"),
        }

    @property
    def runs(self) -> list[RunPaths]:
        """The runs of both sweeps, as far as they have begun."""
        return [RunPaths(path) for path in sorted(self.directory.glob("sweeps/runs/*"))]

    def command(self, sweep: str, mode: str, *overrides: str) -> list[str]:
        """The command line for one of the sweeps."""
        words = [f"mode={mode}", f"sweep={self.directory / 'sweeps' / sweep}", *overrides]
        if mode == "run":
            words += [*self.sweeps[sweep], *SETTINGS, *self.launcher]
        return [sys.executable, "-m", "isosweep", *words]

    def drive(self, sweep: str, *overrides: str) -> None:
        """Start one more driver of a sweep."""
        begun = (self.directory / "sweeps" / sweep / "plan.json").exists()
        command = self.command(sweep, "resume" if begun else "run", *overrides)
        with (self.directory / f"{sweep}.log").open("ab") as log:
            driver = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A shell that started this in the background has switched SIGINT off.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.drivers[sweep].append(driver)

    def living(self, sweep: str) -> list["subprocess.Popen[bytes]"]:
        """Drivers of a sweep that have not ended."""
        self.drivers[sweep] = [d for d in self.drivers[sweep] if d.poll() is None]
        return self.drivers[sweep]

    def workers(self) -> list[tuple[RunPaths, Attempt]]:
        """Runs whose newest attempt is at work here, and that."""
        found = []
        for run in self.runs:
            attempt = newest(run)
            if attempt and attempt.status is Status.RUNNING and at_work(attempt.worker):
                found.append((run, attempt))
        return found


def at_work(process: Process | None) -> bool:
    """Whether the process lives and is not stopped."""
    if process is None or process.alive() is not True:
        return False
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0] not in "TtZ"
    return False
