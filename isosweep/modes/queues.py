"""The queues of one command: one for all sweeps that share a launcher and its settings."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isosweep.config.sweep import SweepConfig
from isosweep.launchers.items import QueueItem
from isosweep.launchers.make import make_launcher
from isosweep.launchers.queue import RunQueue
from isosweep.modes.stored import places_of, store_runs
from isosweep.plan.cells import PlannedRun
from isosweep.plan.patience import stuck_after
from isosweep.plan.study import Study
from isosweep.store.paths import SweepPaths
from isosweep.store.state import RunView

if TYPE_CHECKING:
    from isosweep.search.asking import Search


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep to be launched: what it comes to, where it lies, and which of its runs are left as
    they are, with why. `search`: what asks for its runs; None: all of the plan are wanted."""

    study: Study
    paths: SweepPaths
    left: Mapping[str, str] = field(default_factory=dict)
    search: "Search | None" = None

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.paths.root.name

    @property
    def run_ids(self) -> set[str]:
        """Its runs' ids."""
        return {run.run_id for run in self.study.plan.runs}

    @property
    def runs(self) -> Sequence[PlannedRun]:
        """What is wanted of it at present."""
        return self.study.plan.runs if self.search is None else self.search.runs

    @property
    def settled(self) -> bool:
        """Whether no further run will be wanted."""
        return self.search is None or self.search.stop is not None

    def items(self, only: Callable[[PlannedRun], bool]) -> list[QueueItem]:
        """What a queue is to do for it, of the runs of which `only` holds."""
        config, patience = self.study.config, stuck_after(self.study)
        return [
            QueueItem(
                run=run,
                paths=self.paths.run(run.run_id),
                sweep=str(self.paths.root),
                unit=self.study.plan.budget_unit,
                health=config.health,
                saving=config.checkpoint,
                stuck_after_s=patience[run.run_id],
                requeue=config.launcher.name == "slurm" and config.launcher.slurm.requeue,
            )
            for run in self.runs
            if only(run) and run.run_id not in self.left
        ]


def _key(config: SweepConfig) -> tuple[object, ...]:
    """What a launcher is made of, and what its jobs ask for."""
    # The host memory of a Slurm job is planned by them.
    planned = (config.model, config.recipe, config.grid.axes)
    further = planned if config.launcher.name == "slurm" else ()
    return (config.launcher, config.hardware, config.generation, *further)


class Queues:
    """Starts and follows the runs of sweeps; `notice` is told what a user should know."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._queues: list[tuple[object, RunQueue]] = []

    def add(self, sweeps: Iterable[Sweep]) -> None:
        """Follow the sweeps' runs; those with one launcher share its places."""
        alike: list[tuple[object, list[Sweep]]] = []
        for sweep in sweeps:
            config = sweep.study.config
            if closed := store_runs(sweep.study, sweep.paths):
                self._notice(
                    f"{len(closed)} runs belong to another user and cannot note that {sweep.name} "
                    f"uses them: their owner's mode=clean may remove them; one is {closed[0]}"
                )
            key = _key(config)
            same = next((group for known, group in alike if known == key), None)
            if same is None:
                alike.append((key, [sweep]))
            else:
                same.append(sweep)
        for launcher, group in alike:
            self._add(launcher, group)

    def _add(self, key: object, sweeps: list[Sweep]) -> None:
        items = [item for sweep in sweeps for item in sweep.items(lambda run: True)]
        queue = next((queue for known, queue in self._queues if known == key), None)
        if queue is not None:
            queue.add(items)
            return
        study = sweeps[0].study
        queue = RunQueue(
            items,
            make_launcher(study.config),
            max_parallel=places_of(study) or sum(len(sweep.run_ids) for sweep in sweeps),
            max_retries=study.config.launcher.max_retries,
            notice=self._notice,
        )
        self._queues.append((key, queue))

    def ask(self, sweep: Sweep, run_ids: Collection[str]) -> None:
        """Follow further runs of a sweep that is followed already."""
        key = _key(sweep.study.config)
        queue = next(queue for known, queue in self._queues if known == key)
        queue.add(sweep.items(lambda run: run.run_id in run_ids))

    @property
    def all(self) -> list[RunQueue]:
        """The queues."""
        return [queue for _, queue in self._queues]

    @property
    def busy(self) -> bool:
        """Whether a run waits or is active."""
        return any(queue.busy for queue in self.all)

    @property
    def active(self) -> list[PlannedRun]:
        """The runs that are submitted and not over."""
        return [run for queue in self.all for run in queue.active]

    @property
    def views(self) -> list[tuple[PlannedRun, RunView]]:
        """The active runs, each with what was last read of it."""
        return [pair for queue in self.all for pair in queue.views]

    @property
    def failed(self) -> dict[str, str]:
        """Runs that were given up, and why."""
        return {run_id: reason for queue in self.all for run_id, reason in queue.failed.items()}

    @property
    def pause_s(self) -> float:
        """Seconds until the next pass is due."""
        return max((queue.pause_s for queue in self.all), default=1.0)

    @property
    def at_work(self) -> list[RunQueue]:
        """The queues that may start runs now: those with places of this machine, which are the
        same for all of them, one after another."""
        placed = [queue for queue in self.all if queue.launcher.places]
        first = next((queue for queue in placed if queue.busy), None)
        return [queue for queue in self.all if queue is first or not queue.launcher.places]

    def step(self) -> None:
        """One pass."""
        for queue in self.at_work:
            queue.step()

    def drop(self, sweep: Sweep, others: Iterable[Sweep]) -> None:
        """Leave a sweep's runs to somebody else, but for those that `others` want as well."""
        ids = sweep.run_ids
        for queue in self.all:
            queue.drop(ids)
        for other in others:
            config = other.study.config
            key = _key(config)
            for known, queue in self._queues:
                if known == key:
                    queue.add(other.items(lambda run: run.run_id in ids))
