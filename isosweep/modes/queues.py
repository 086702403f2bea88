"""The queues of one command: one for all sweeps that share a launcher and its settings."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.secrets import hidden
from isosweep.errors import StorageError
from isosweep.launchers.launcher import QueueItem
from isosweep.launchers.make import make_launcher
from isosweep.launchers.queue import RunQueue
from isosweep.modes.directory import StoredSweep
from isosweep.modes.display_search import described_step
from isosweep.modes.stored import places_of, store_runs
from isosweep.modes.terminal import say, typed
from isosweep.plan.cells import PlannedRun
from isosweep.plan.patience import stuck_after
from isosweep.plan.study import Study
from isosweep.store.attempts import Attempt
from isosweep.store.paths import SweepPaths

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
    def stored(self) -> StoredSweep:
        """What its directory holds of it."""
        return StoredSweep(config=self.study.config, plan=self.study.plan, paths=self.paths)

    @cached_property
    def run_ids(self) -> frozenset[str]:
        """Its runs' ids."""
        return frozenset(run.run_id for run in self.study.plan.runs)

    @cached_property
    def key(self) -> str:
        """What its launcher is made of, and what the jobs of that ask for."""
        config = self.study.config
        # The host memory of a Slurm job is planned by them.
        planned = (config.model, config.recipe, config.grid.axes)
        further = planned if config.launcher.name == "slurm" else ()
        return repr((config.launcher, config.hardware, config.generation, *further))

    @property
    def runs(self) -> Sequence[PlannedRun]:
        """What is wanted of it at present."""
        return self.study.plan.runs if self.search is None else self.search.runs

    @property
    def settled(self) -> bool:
        """Whether no further run will be wanted."""
        return self.search is None or self.search.stop is not None

    def ask(self, failed: Mapping[str, str], console: Console) -> set[str]:
        """The runs that its search asks for now, which is told; `failed`: those that were given up,
        and why."""
        if self.search is None:
            return set()
        before = self.search.stop
        with self._written():
            steps = self.search.next({**self.left, **failed})
        say(console, *(f"search: {described_step(step, self.study.plan)}" for step in steps))
        if before is None and self.search.stop is not None:
            say(console, f"search: stopped: {self.search.stop}")
        return {step.run_id for step in steps}

    def close_search(self) -> None:
        """Tell what is left of a search that has stopped."""
        if self.search is not None:
            with self._written():
                self.search.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A storage that fails while runs are at work, as a StorageError."""
        from optuna.exceptions import OptunaError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (OptunaError, SQLAlchemyError) as error:
            from isosweep.search.study import shown_storage

            where = shown_storage(self.paths, self.study.config.search)
            again = f"python -m isosweep mode=resume {typed('sweep_dir', self.paths.root)}"
            raise StorageError(where, hidden(" ".join(str(error).split())[:300]), again) from error

    def items(self, only: Collection[str] | None = None) -> list[QueueItem]:
        """What a queue is to do for it, of all its runs or those called so."""
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
                trust=config.trust,
            )
            for run in self.runs
            if (only is None or run.run_id in only) and run.run_id not in self.left
        ]


class Queues:
    """Starts and follows the runs of sweeps; `notice` is told what a user should know."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._queues: dict[str, RunQueue] = {}

    def add(self, sweeps: Iterable[Sweep]) -> None:
        """Follow the sweeps' runs; those with one launcher share its places."""
        alike: dict[str, list[Sweep]] = defaultdict(list)
        for sweep in sweeps:
            store_runs(sweep.study, sweep.paths)
            alike[sweep.key].append(sweep)
        for key, group in alike.items():
            items = [item for sweep in group for item in sweep.items()]
            if key in self._queues:
                self._queues[key].add(items)
                continue
            study = group[0].study
            self._queues[key] = RunQueue(
                items,
                make_launcher(study.config),
                max_parallel=places_of(study) or sum(len(sweep.run_ids) for sweep in group),
                max_retries=study.config.launcher.max_retries,
                notice=self._notice,
            )

    def ask(self, sweep: Sweep, run_ids: Collection[str]) -> None:
        """Follow further runs of a sweep that is followed already."""
        self._queues[sweep.key].add(sweep.items(run_ids))

    @property
    def all(self) -> list[RunQueue]:
        """The queues."""
        return [*self._queues.values()]

    @property
    def busy(self) -> bool:
        """Whether a run waits or is active."""
        return any(queue.busy for queue in self.all)

    @property
    def active(self) -> list[PlannedRun]:
        """The runs that are submitted and not over."""
        return [run for queue in self.all for run in queue.active]

    @property
    def attempts(self) -> list[tuple[PlannedRun, Attempt]]:
        """The active runs, each with its newest attempt as last read."""
        return [pair for queue in self.all for pair in queue.attempts]

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
        """One pass. Raises OSError, at its end, where a file system fails."""
        fault = None
        for queue in self.at_work:
            try:
                queue.step()
            except OSError as error:
                fault = error
        if fault is not None:
            raise fault
