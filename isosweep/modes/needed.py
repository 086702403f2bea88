"""Which runs the sweeps of a directory need, and what of their files nobody does."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from isosweep.compute import BudgetUnit
from isosweep.config.checkpoint import Keep
from isosweep.errors import IsosweepError
from isosweep.modes.directory import StoredSweep, never_launched, read_sweep
from isosweep.modes.display_search import stopped_runs, stored_search
from isosweep.modes.terminal import typed
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.checkpoints import states_of
from isosweep.store.paths import RunPaths, SweepPaths, complete_checkpoints
from isosweep.store.state import RunView, view_run
from isosweep.store.uses import Use

# What `files.write_text` and claims write before they rename it, and what is being removed.
_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}")
# Optimiser states that take less are not worth telling of.
LEAST_TOLD_BYTES = 1e9
# Seconds after which nobody can still be about to rename it.
_OLD_S = 86400.0
# And after which nobody is about to launch what a plan was just shown of.
_PLANNED_S = 3600.0

What = Literal["run", "checkpoint", "states", "plan", "leftover"]


@dataclass(frozen=True)
class Superfluous:
    """A file or directory that no sweep needs, why, and its bytes.

    `uses`: names of the run's list of sweeps when that was judged.
    """

    path: Path
    what: What
    why: str
    size: int
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Reader:
    """A sweep that reads a run, as far as its plan says. `asks_no_more`: its search has ended, or
    it was never launched."""

    sweep: Path
    run: PlannedRun
    unit: BudgetUnit
    stop: tuple[str, ...]
    asks_no_more: bool = False

    def standing(self, view: RunView) -> Standing:
        """How the run stands with respect to this sweep."""
        where = run_standing(self.run, view, self.unit, self.stop)
        over = self.asks_no_more and where is Standing.TO_EXTEND
        return Standing.STOPPED if over else where


@dataclass(frozen=True)
class Need:
    """A run that the plans of sweeps name. `keep`: what its checkpoints are kept for, the most that
    one of its `readers` asks for."""

    keep: Keep
    readers: tuple[Reader, ...]

    def extended_by(self, view: RunView) -> Path | None:
        """A sweep that trains the run further than it is; None where none does."""
        over = (*_TRAINED, Standing.STOPPED)
        return next((r.sweep for r in self.readers if r.standing(view) not in over), None)

    def at_most(self, keep: Keep, view: RunView) -> Keep:
        """What the checkpoints are kept for where no more than `keep` is asked for; all that they
        were, where a sweep trains the run further."""
        if self.extended_by(view) is not None:
            return self.keep
        return min(self.keep, keep, key=_MOST.index)


@dataclass(frozen=True)
class Needs:
    """What the plans of sweeps name, by run id. `plans`: the id of each sweep's plan, by its
    directory; `faults`: of sweeps that cannot be read, so that nobody knows."""

    runs: dict[str, Need]
    plans: dict[Path, str]
    faults: tuple[str, ...]

    def reaches(self, use: Use) -> bool:
        """Whether the sweep that uses a run is one of these, with the plan that it had then."""
        return any(self.plans.get(root) == use.plan_id for root in use.roots)


NO_NEEDS = Needs(runs={}, plans={}, faults=())


def needs_of(roots: Iterable[Path], known: Needs = NO_NEEDS) -> Needs:
    """What the sweeps in `roots` need, beside what is `known`."""
    needed, plans = dict(known.runs), dict(known.plans)
    faults = []
    for root in roots:
        try:
            sweep = read_sweep(root)
        except (IsosweepError, OSError) as error:
            faults.append(str(error))
            continue
        for run_id, need in _needs_of(sweep).items():
            before = needed.get(run_id, Need(need.keep, ()))
            most = max(before.keep, need.keep, key=_MOST.index)
            needed[run_id] = Need(most, (*before.readers, *need.readers))
        plans[root] = sweep.plan.plan_id
    return Needs(runs=needed, plans=plans, faults=tuple(faults))


def _needs_of(sweep: StoredSweep) -> dict[str, Need]:
    unit, stop = sweep.plan.budget_unit, tuple(sweep.config.health.stop)
    keep, root = sweep.config.checkpoint.keep, sweep.paths.root
    # A search that cannot be read may ask for more.
    over = stopped_runs(stored_search(sweep)) is not None or never_launched(root)
    return {
        run.run_id: Need(keep, (Reader(root, run, unit, stop, asks_no_more=over),))
        for run in sweep.plan.runs
    }


# How a run stands that a sweep trains no further, and one that goes on from its last checkpoint.
_TRAINED = (Standing.DONE, Standing.DIVERGED)
_ENDED = (*_TRAINED, Standing.TO_EXTEND, Standing.STOPPED)
# From the least that is kept to the most.
_MOST: tuple[Keep, ...] = ("none", "weights", "resumable", "all")


def beyond(uses: Mapping[str, Collection[Use]], needs: Needs) -> set[Path]:
    """Where sweeps may lie that use runs and are not among `needs`."""
    roots = {root for noted in uses.values() for use in noted if not use.gone for root in use.roots}
    return roots - needs.plans.keys()


def doubt(uses: Collection[Use], needs: Needs) -> str | None:
    """Why nobody can say that no sweep beside `needs` uses the run; None where that is certain."""
    if not any(use.first for use in uses):
        return "an earlier version began it and kept no list of the sweeps that use it"
    lost = next((use for use in uses if not use.gone and not needs.reaches(use)), None)
    if lost is None:
        return None
    remedy = f"{typed('forget', lost.sweep)} if that is gone for good"
    moved = "if it was moved, mode=resume there first"
    return f"{lost.sweep} uses it and cannot be read; {remedy}; {moved}"


def spared(run: RunPaths, need: Need, keep: Keep) -> int:
    """Bytes of the run's checkpoints that go where no more than `keep` is asked for; 0 where a
    sweep has all of them kept."""
    if need.keep == "all":
        return 0
    least = need.at_most(keep, view_run(run))
    return sum(item.size for item in superfluous_checkpoints(run, need, least))


def spared_by_sweep(sweep: StoredSweep, keep: Keep) -> int:
    """The same of all runs of a sweep, as if no other one read them."""
    needed = _needs_of(sweep)
    return sum(spared(sweep.paths.run(run_id), need, keep) for run_id, need in needed.items())


def superfluous_checkpoints(
    run: RunPaths, need: Need, keep: Keep, listed: frozenset[str] = frozenset()
) -> list[Superfluous]:
    """What of the checkpoints of a run that has ended as it should is beyond `keep`; `listed`: the
    names in its list of sweeps.

    What is left of one that was being written counts too. None of a run that goes on from one.
    """
    why = f"checkpoint.keep={keep}"
    return [
        Superfluous(path, what, why, sum(map(bytes_of, parts)), listed)
        for path, what, parts in _parts_beyond(run, need, keep)
    ]


def _parts_beyond(
    run: RunPaths, need: Need, keep: Keep
) -> Iterator[tuple[Path, What, Sequence[Path]]]:
    """Checkpoints, each with what of it goes."""
    if keep == "all" or run.checkpoints.is_symlink() or not run.checkpoints.is_dir():
        return
    view = view_run(run)
    if view.occupied or any(reader.standing(view) not in _ENDED for reader in need.readers):
        return
    complete: dict[tuple[int, int], Path] = {}
    there: list[Path] = []
    for attempt in run.checkpoints.iterdir():
        if not attempt.name.isdigit() or attempt.is_symlink():
            continue
        there += [p for p in attempt.glob("checkpoint-*") if p.is_dir() and not p.is_symlink()]
        known = complete_checkpoints(attempt)
        complete |= {(int(attempt.name), step): path for step, path in known.items()}
    match keep:
        case "none":
            left = None
        case "resumable" if complete:
            left = complete[max(complete)]
        case "weights" | "resumable":
            # Its marker is taken from what is kept for its weights, so it is not complete.
            left = max(there, key=lambda p: (int(p.parent.name), _step(p)), default=None)
        case _:
            assert_never(keep)
    yield from ((path, "checkpoint", (path,)) for path in there if path != left)
    if keep != "weights" or left is None or need.extended_by(view) is not None:
        return
    if states := states_of(left):
        yield left, "states", states


def _step(checkpoint: Path) -> int:
    tail = checkpoint.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def occupied(run: RunPaths) -> str | None:
    """Why the run may not be touched: somebody is, or may be, at it; None where nobody is."""
    view = view_run(run)
    state = view.state
    if view.occupied:
        return "it has a live submission, or a worker"
    # Nothing that cannot be read is taken for an ended run.
    return state.reason if state is not None and not state.host else None


def mere_plans(roots: Iterable[Path], now: float) -> Iterator[Path]:
    """Sweeps that were planned more than an hour ago, and never launched."""
    for root in roots:
        paths = SweepPaths(root, root)
        old = now - paths.plan.stat().st_mtime > _PLANNED_S
        if old and never_launched(root):
            yield root


def leftovers(directory: Path, now: float) -> Iterator[Path]:
    """Temporary files that a kill left in `directory` and below, older than a day."""
    for folder, folders, files in os.walk(directory, followlinks=False):
        for name in [*files, *folders]:
            if not _TEMPORARY.fullmatch(name):
                continue
            path = Path(folder, name)
            if not path.is_symlink() and now - path.stat().st_mtime > _OLD_S:
                yield path
        folders[:] = [name for name in folders if not _TEMPORARY.fullmatch(name)]


def bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files of a directory; links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(
        Path(folder, name).lstat().st_size
        for folder, _, files in os.walk(path, followlinks=False)
        for name in files
    )
