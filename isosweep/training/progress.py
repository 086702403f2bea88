"""What a checkpoint says beside the trainer's own files, and which one an attempt starts from."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from isosweep.compute import Compute
from isosweep.files import JsonObject, read_json, write_json
from isosweep.store.paths import (
    CHECKPOINT_HEALTH,
    CHECKPOINT_PROGRESS,
    RunPaths,
    complete_checkpoints,
)
from isosweep.store.records import attempt_chain
from isosweep.training.health import HealthMonitor
from isosweep.training.ledger import Ledger
from isosweep.training.stream import ProblemStream


@dataclass(frozen=True)
class ResumePoint:
    """Where an attempt starts: a checkpoint of attempt `parent`, or step 0."""

    step: int
    parent: int | None
    checkpoint: Path | None

    @property
    def health(self) -> JsonObject | None:
        """State of the health monitor there; None at the start of a run."""
        return read_json(self.checkpoint / CHECKPOINT_HEALTH) if self.checkpoint else None


def find_resume_point(run: RunPaths, attempt: int) -> ResumePoint:
    """The newest complete checkpoint on the chain of attempts before `attempt`."""
    for parent, last in attempt_chain(run.records, before=attempt).items():
        checkpoints = complete_checkpoints(run.attempt_checkpoints(parent))
        step = max((step for step in checkpoints if step <= last), default=None)
        if step is not None:
            return ResumePoint(step, parent, checkpoints[step])
    return ResumePoint(0, None, None)


@dataclass(frozen=True)
class Progress:
    """What has been spent, which problem comes next, and how healthy the run is."""

    ledger: Ledger
    stream: ProblemStream
    monitor: HealthMonitor

    def save(self, checkpoint: Path) -> None:
        """Complete a checkpoint whose other files are written."""
        write_json(checkpoint / CHECKPOINT_HEALTH, self.monitor.to_json())
        document = {"compute": asdict(self.ledger.spent), "stream": self.stream.to_json()}
        write_json(checkpoint / CHECKPOINT_PROGRESS, document)

    def restore(self, checkpoint: Path) -> None:
        """Put books and order of problems where a complete checkpoint left them.

        A monitor is made from its state.
        """
        document = json.loads((checkpoint / CHECKPOINT_PROGRESS).read_text())
        self.ledger.spent = Compute(**document["compute"])
        self.stream.restore(document["stream"])


def drop_older_checkpoints(run: RunPaths, attempt: int) -> None:
    """Remove earlier attempts' checkpoints once `attempt` has a complete one of its own."""
    if complete_checkpoints(run.attempt_checkpoints(attempt)):
        for path in run.checkpoints.iterdir():
            if path.name.isdigit() and int(path.name) < attempt:
                shutil.rmtree(path, ignore_errors=True)
