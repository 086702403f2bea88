"""What a queue is given: runs as the sweeps of one command want them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from isosweep.compute import BudgetUnit
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.files import JsonObject
from isosweep.plan.cells import PlannedRun
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
        """What its worker is to do: `TrainRun` but for the run's directory."""
        return {
            "milestones": list(self.run.milestones),
            "unit": self.unit,
            "health": asdict(self.health),
            "saving": asdict(self.saving),
            "requeue": self.requeue,
            "trust": self.trust,
            "stuck_after_s": self.stuck_after_s,
        }


def merged(items: Iterable[QueueItem]) -> list[QueueItem]:
    """The items, those of one run and equal job settings as one with all their milestones.

    The first of them says which sweep it belongs to.
    """
    found: dict[str, QueueItem] = {}
    for item in items:
        key = repr((item.run.run_id, item.unit, item.health, item.saving))
        found[key] = _both(found[key], item) if key in found else item
    return [*found.values()]


def _both(first: QueueItem, second: QueueItem) -> QueueItem:
    longer = max(first.run, second.run, key=lambda run: run.milestones[-1])
    milestones = sorted({*first.run.milestones, *second.run.milestones})
    patience = max(first.stuck_after_s, second.stuck_after_s)
    run = replace(longer, milestones=tuple(milestones))
    return replace(first, run=run, stuck_after_s=patience)
