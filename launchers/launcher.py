"""What a queue is given, what it asks of a launcher, and what it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from isosweep.compute import BudgetUnit
from isosweep.config.study import CheckpointConfig, HealthConfig
from isosweep.files import JsonObject
from isosweep.plan.cells import PlannedRun
from isosweep.store.attempts import Attempt, LauncherName, Status
from isosweep.store.paths import RunPaths


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """A run, how its job trains it, and the directory of the sweep that its submissions name.

    `stuck_after_s`: seconds without progress after which its worker is stuck. `requeue`: a worker
    that is told to leave has its scheduler start it again. `trust`: what others may have written is
    executed.
    """

    run: PlannedRun
    paths: RunPaths
    sweep: str
    unit: BudgetUnit
    health: HealthConfig
    saving: CheckpointConfig
    stuck_after_s: float
    requeue: bool = False
    trust: bool = False

    @property
    def job(self) -> JsonObject:
        """What its worker is to do: `TrainRun` without the run's directory, and whether its
        scheduler is asked to start it again."""
        return {
            "milestones": list(self.run.milestones),
            "unit": self.unit,
            "health": self.health.model_dump(),
            "saving": self.saving.model_dump(),
            "requeue": self.requeue,
            "trust": self.trust,
            "stuck_after_s": self.stuck_after_s,
        }


@dataclass(frozen=True, kw_only=True)
class Order:
    """An attempt to be started: its file is there, and its job is to execute

        python -m isosweep.training attempts/3.json

    with its output in `logs`, which exists. `run` has what the plan says of it.
    """

    attempt: Attempt
    run: PlannedRun

    @property
    def logs(self) -> Path:
        """The directory of what the job prints."""
        return self.attempt.run.attempt_logs(self.attempt.number)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A scheduler did not take an attempt; `reason` is in its words.

    `passing`: it may take it later (it is down, or at a limit). What it gave no answer to counts as
    taken: its job is looked for, and lost where there is none.
    """

    reason: str
    passing: bool


@dataclass(frozen=True, kw_only=True)
class _Job:
    """`reason`: why a job waits or how it ended, in the scheduler's words. `outcome`: of one that
    has ended, how its attempt did if its worker has not said so. `job_id`: what the scheduler calls
    it."""

    reason: str = ""
    outcome: Status = Status.LOST
    job_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Observed(_Job):
    """What a launcher is told of an attempt's job at the moment: that it waits or runs, has
    `ended`, has ended but may be started again (`restarting`), is `missing`; nothing (`unknown`),
    or nothing that can be told here (`away`: the process is on another host)."""

    status: Literal["pending", "running", "ended", "restarting", "missing", "away", "unknown"]


@dataclass(frozen=True, kw_only=True)
class JobState(_Job):
    """What `launchers.liveness` concludes of it."""

    status: Literal["pending", "running", "gone", "unknown"]


class Launcher(Protocol):
    """Starts runs somewhere.

    `detaches`: runs go on when this process leaves. `places`: one place a run; False where a
    scheduler sees to that. `poll_s`: seconds between two calls of `observe`, at least. `max_batch`:
    most attempts that one call of `submit` is given.
    """

    name: LauncherName
    detaches: bool
    places: bool
    poll_s: float
    max_batch: int = 1000

    def devices(self, place: int) -> tuple[str, ...]:
        """GPUs of this machine, by name, that the run in `place` is given; none elsewhere."""
        return ()

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Start the jobs of `orders`; of each that was not taken, why.

        All have one `batch`, and each its own `index`. Raises nothing that a scheduler can cause.
        """

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """What is told of their jobs, by one question to the scheduler for all of them."""

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Ask their jobs to write a checkpoint and leave, or end them (`kill`).

        What went wrong, in the scheduler's words; None where nothing did. Whether they have left
        is for `observe` to say.
        """
