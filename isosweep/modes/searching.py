"""The searches of a command's sweeps: opened, asked for what is next, and told at their ends."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.secrets import hidden
from isosweep.errors import StorageError
from isosweep.modes.display_search import described_step
from isosweep.modes.stored import places_of
from isosweep.modes.terminal import say, typed
from isosweep.plan.study import Study
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.modes.queues import Sweep
    from isosweep.search.asking import Search

# Runs at once where neither launcher.max_parallel nor this machine says how many: a decision
# that is made for many runs knows what the ones before have shown.
_PLACES = 8


def search_of(study: Study, paths: SweepPaths) -> "Search | None":
    """The search that the settings ask for, not opened yet; None where the whole plan is run."""
    if not study.config.search.searches:
        return None
    from isosweep.search.asking import Search

    return Search(study.plan, paths, study.config, places_of(study) or _PLACES)


def close_searches(sweeps: "Iterable[Sweep]") -> None:
    """Tell what is left of searches that have stopped."""
    for sweep in sweeps:
        if sweep.search is not None:
            with _written(sweep):
                sweep.search.close()


@contextmanager
def _written(sweep: "Sweep") -> Iterator[None]:
    """A storage that fails while runs are at work, as a StorageError."""
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (OptunaError, SQLAlchemyError) as error:
        from isosweep.search.study import shown_storage

        where = shown_storage(sweep.paths, sweep.study.config.search)
        again = f"python -m isosweep mode=resume {typed('sweep_dir', sweep.paths.root)}"
        raise StorageError(where, hidden(" ".join(str(error).split())[:300]), again) from error


def ask(
    sweeps: "Iterable[Sweep]", failed: Mapping[str, str], console: Console
) -> "list[tuple[Sweep, set[str]]]":
    """The sweeps whose searches ask for more now, and of which runs; that is told.

    `failed`: runs that were given up, and why.
    """
    asking = []
    for sweep in sweeps:
        if sweep.search is None:
            continue
        plan, before = sweep.study.plan, sweep.search.stop
        with _written(sweep):
            steps = sweep.search.next({**sweep.left, **failed})
        for step in steps:
            say(console, f"search: {described_step(step, plan)}")
        if steps:
            asking.append((sweep, {step.run_id for step in steps}))
        if before is None and sweep.search.stop is not None:
            say(console, f"search: stopped: {sweep.search.stop}")
    return asking
