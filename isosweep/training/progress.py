"""What a checkpoint says beside the trainer's own files, and which one an attempt starts from."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import JsonObject, highest_of, names, read_json, write_json
from isosweep.store.attempts import Status
from isosweep.store.attempts import read as read_attempt
from isosweep.store.checkpoints import fault
from isosweep.store.paths import (
    CHECKPOINT_FOREIGN,
    CHECKPOINT_HEALTH,
    CHECKPOINT_PROGRESS,
    RunPaths,
    complete_checkpoints,
)
from isosweep.store.records import read_records
from isosweep.training.health import HealthMonitor
from isosweep.training.ledger import Ledger
from isosweep.training.stream import Stream


@dataclass(frozen=True)
class ResumePoint:
    """Where an attempt starts: a checkpoint of attempt `parent`, or step 0.

    `losses`: what should have been there to start from and is not, a sentence each.
    """

    step: int
    parent: int | None
    checkpoint: Path | None
    losses: tuple[str, ...] = ()

    @property
    def health(self) -> JsonObject | None:
        """State of the health monitor there; None at the start of a run."""
        return read_json(self.checkpoint / CHECKPOINT_HEALTH) if self.checkpoint else None

    def to_json(self) -> JsonObject:
        """The point, for the processes that share a run."""
        document: JsonObject = TypeAdapter(ResumePoint).dump_python(self, mode="json")
        return document

    @staticmethod
    def from_json(document: JsonObject) -> "ResumePoint":
        """The point that `to_json` wrote."""
        return TypeAdapter(ResumePoint).validate_python(document)


def find_resume_point(run: RunPaths, attempt: int) -> ResumePoint:
    """The newest whole checkpoint on the chain of attempts before `attempt`.

    One that is broken is passed over: a file is missing, or has another size.
    """
    losses: list[str] = []
    read = read_records(run.records, before=attempt)
    for parent, last in read.chain.items():
        checkpoints = complete_checkpoints(run.attempt_checkpoints(parent))
        for step in sorted((step for step in checkpoints if step <= last), reverse=True):
            wrong = _wrong(checkpoints[step])
            if wrong is None:
                return ResumePoint(step, parent, checkpoints[step], _ending(losses, step))
            losses.append(f"the checkpoint of step {step} in {checkpoints[step]} {wrong}")
    if not losses and _had_ended(run, attempt):
        losses.append(
            "no checkpoint to go on from is left of the run, which had ended (checkpoint.keep, or "
            "deleted)"
        )
    return ResumePoint(0, None, None, _ending(losses, 0))


def _wrong(checkpoint: Path) -> str | None:
    """Why a run cannot go on from a checkpoint."""
    broken = fault(checkpoint)
    if broken is not None:
        return f"is broken: {broken}"
    foreign = read_json(checkpoint / CHECKPOINT_FOREIGN)
    if foreign is not None and not Path(foreign["path"]).exists():
        return f"is gone: its command has removed {foreign['path']}"
    return None


def _ending(losses: list[str], step: int) -> tuple[str, ...]:
    return tuple(f"{loss}; training goes on from step {step}" for loss in losses)


def _had_ended(run: RunPaths, attempt: int) -> bool:
    """Whether the one before `attempt` ended as it should, and so left a checkpoint."""
    before = highest_of(name for name in names(run.attempts) if highest_of([name]) < attempt)
    try:
        status = read_attempt(run, before).status
    except RecordError:
        return False
    return status in (Status.FINISHED, Status.DIVERGED)


@dataclass(frozen=True)
class Progress:
    """What has been spent, which problem comes next, and how healthy the run is."""

    ledger: Ledger
    stream: Stream
    monitor: HealthMonitor

    def save(self, checkpoint: Path) -> None:
        """Add what is known now to a checkpoint."""
        write_json(checkpoint / CHECKPOINT_HEALTH, self.monitor.to_json())
        document = {"compute": asdict(self.ledger.spent), "stream": self.stream.to_json()}
        write_json(checkpoint / CHECKPOINT_PROGRESS, document)

    def restore(self, checkpoint: Path) -> None:
        """Put books and the order of problems where a complete checkpoint left them.

        A monitor is made from its state.
        """
        document = json.loads((checkpoint / CHECKPOINT_PROGRESS).read_text())
        self.ledger.spent = Compute(**document["compute"])
        self.stream.restore(document["stream"])
