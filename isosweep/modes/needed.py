"""Which runs the sweeps of a directory need, and what of their files nobody does."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from isosweep.compute import BudgetUnit
from isosweep.config.checkpoint import Keep
from isosweep.errors import IsosweepError
from isosweep.modes.directory import read_sweep
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import Standing, run_standing
from isosweep.store.claims import names
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.state import view_run
from isosweep.store.submissions import read_submission

# What `files.write_text` and claims write before they rename it, and what is being removed.
_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}")
# Seconds after which nobody can still be about to rename it.
_OLD_S = 86400.0

What = Literal["run", "checkpoint", "leftover"]


@dataclass(frozen=True)
class Superfluous:
    """A file or directory that no sweep needs, why, and its bytes."""

    path: Path
    what: What
    why: str
    size: int


@dataclass(frozen=True)
class Need:
    """A run that a sweep's plan names. `keep`: what its checkpoints are kept for, the most that one
    of its sweeps asks for; the rest is as `run_standing` takes it, of one of them."""

    keep: Keep
    run: PlannedRun
    unit: BudgetUnit
    stop: tuple[str, ...]


@dataclass(frozen=True)
class Needs:
    """What the plans of sweeps name, by run id. `faults`: of sweeps that cannot be read, so that
    nobody knows."""

    runs: dict[str, Need]
    faults: tuple[str, ...]


def needs_of(roots: list[Path]) -> Needs:
    """What the sweeps in `roots` need."""
    needed: dict[str, Need] = {}
    faults = []
    for root in roots:
        try:
            sweep = read_sweep(root)
        except (IsosweepError, OSError) as error:
            faults.append(str(error))
            continue
        asked, stop = sweep.config.checkpoint.keep, tuple(sweep.config.health.stop)
        for run in sweep.plan.runs:
            known = needed.get(run.run_id)
            most = max(known.keep if known else asked, asked, key=_MOST.index)
            needed[run.run_id] = Need(most, run, sweep.plan.budget_unit, stop)
    return Needs(runs=needed, faults=tuple(faults))


# How a run stands that goes on from its last checkpoint, or from none.
_ENDED = (Standing.DONE, Standing.DIVERGED, Standing.TO_EXTEND)
# From the least that is kept to the most.
_MOST: tuple[Keep, ...] = ("none", "weights", "resumable", "all")


def asking_sweeps(run: RunPaths) -> set[Path]:
    """Directories of the sweeps that submitted the run, wherever they are.

    Raises RecordError where a submission cannot be read.
    """
    heads = {name.partition(".")[0] for name in names(run.submissions)}
    numbers = [int(head) for head in heads if head.isdecimal()]
    return {Path(read_submission(run, number).submission.sweep) for number in numbers}


def superfluous_checkpoints(run: RunPaths, need: Need) -> Iterator[Path]:
    """Checkpoints of a run that has ended as it should, beyond what is kept of them.

    What is left of one that was being written counts too. None of a run that goes on from one.
    """
    keep = need.keep
    if keep == "all" or run.checkpoints.is_symlink() or not run.checkpoints.is_dir():
        return
    view = view_run(run)
    if view.occupied or run_standing(need.run, view, need.unit, need.stop) not in _ENDED:
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
        case "resumable":
            left = complete[max(complete)] if complete else None
        case "weights":
            # Its marker is taken from what is kept for its weights, so it is not complete.
            left = max(there, key=lambda p: (int(p.parent.name), _step(p)), default=None)
        case _:
            assert_never(keep)
    yield from (path for path in there if path != left)


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
