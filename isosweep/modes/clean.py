"""`mode=clean`: what no sweep needs is listed with its size; `confirm=true` moves it to trash/."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from rich.console import Console

from isosweep.config.checkpoint import Keep
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError
from isosweep.modes.directory import StoredSweep, never_launched, read_sweep, sweep_roots
from isosweep.modes.display_search import as_searched, stored_search
from isosweep.modes.terminal import say, warn
from isosweep.plan.tally import Standing
from isosweep.reserved import RUNS, TRASH
from isosweep.store.checkpoints import keep_weights, remove, states_of
from isosweep.store.claims import names
from isosweep.store.paths import CHECKPOINT, RunPaths, complete_checkpoints
from isosweep.store.state import view_run
from isosweep.words.numbers import size

# What is listed, at most; the total has all.
_LISTED = 20
# Seconds after which nobody is about to launch what a plan was just shown of.
_PLANNED_S = 3600.0
# How a run stands that trains no further.
_ENDED = (Standing.DONE, Standing.DIVERGED, Standing.STOPPED)


@dataclass(frozen=True)
class _Item:
    """What no sweep needs and why. `busy`: why it may not be touched at this moment, None if it
    may; `remove`: removes what is not worth keeping, None for what is moved."""

    path: Path
    why: str
    size: int
    busy: Callable[[Path], str | None]
    remove: Callable[[Path], None] | None = None


def clean_sweeps(config: SweepConfig, console: Console) -> int:
    """List what no sweep in `sweeps_dir` needs; move it to `trash/` where `confirm` says so.

    With `checkpoint.keep` in the command, what ended runs have beyond that is removed. Returns 1
    where a sweep cannot be read, so that nothing is touched, or something is busy; else 0.
    """
    directory = Path(config.sweeps_dir).resolve()
    sweeps, faults = list[StoredSweep](), list[str]()
    for root in sweep_roots(str(directory)):
        try:
            sweeps.append(read_sweep(root))
        except (IsosweepError, OSError) as error:
            faults.append(str(error))
    if faults:
        warn(console, *faults, "nothing is moved: one of these sweeps may need it")
        return 1
    keep = config.checkpoint.keep if "checkpoint.keep" in config.given else "all"
    found = [*_mere_plans(sweeps), *_unneeded_runs(directory / RUNS, sweeps)]
    found += _checkpoints_beyond(keep, sweeps)
    busy = [f"{item.path} stays: {why}" for item in found if (why := item.busy(item.path))]
    warn(console, *busy)
    items = [item for item in found if item.busy(item.path) is None]
    _show(items, console)
    if not (items and config.confirm):
        if items:
            say(console, "nothing was moved; confirm=true moves what is listed to trash/")
        return 1 if busy else 0
    trash = directory / TRASH / time.strftime("%Y-%m-%d-%H%M%S")
    left = [why for item in items if (why := _clear(item, directory, trash))]
    warn(console, *left)
    say(console, f"{len(items) - len(left)} of {len(items)} moved or removed")
    if trash.exists():
        say(console, f"to free the space: rm -r {quote(str(trash))}")
    return 1 if left or busy else 0


def _mere_plans(sweeps: Sequence[StoredSweep]) -> Iterator[_Item]:
    """Sweeps that were planned more than an hour ago and never launched."""
    for sweep in sweeps:
        root = sweep.paths.root
        if never_launched(root) and time.time() - sweep.paths.plan.stat().st_mtime > _PLANNED_S:
            yield _Item(root, "never launched", _bytes_of(root), _launched)


def _launched(root: Path) -> str | None:
    return None if never_launched(root) else "it has just been launched"


def _unneeded_runs(runs: Path, sweeps: Sequence[StoredSweep]) -> Iterator[_Item]:
    """Runs that no plan names."""
    needed = {run.run_id for sweep in sweeps for run in sweep.plan.runs}
    for name in sorted(set(names(runs)) - needed):
        run = RunPaths(runs / name)
        if run.spec.exists() and not run.root.is_symlink():
            yield _Item(run.root, "no sweep's plan names it", _bytes_of(run.root), _occupied)


def _occupied(root: Path) -> str | None:
    """Why the run may not be touched: somebody is, or may be, at it; None where nobody is."""
    view = view_run(RunPaths(root))
    if view.occupied:
        return "it has a live submission, or a worker"
    # Nothing that cannot be read is taken for an ended run.
    return view.state.reason if view.state is not None and not view.state.host else None


def _checkpoints_beyond(keep: Keep, sweeps: Sequence[StoredSweep]) -> Iterator[_Item]:
    """Checkpoints, or their optimiser states, that `keep` does not ask for, of runs that have ended
    for every sweep that was launched."""
    if keep == "all":
        return
    roots, going = set[Path](), set[Path]()
    for sweep in sweeps:
        search, planned = stored_search(sweep), never_launched(sweep.paths.root)
        for run_id, standing in sweep.standing().runs.items():
            root = sweep.paths.run(run_id).root
            roots.add(root)
            over = planned and standing is Standing.TO_EXTEND
            if as_searched(standing, search) not in _ENDED and not over:
                going.add(root)
    for run in map(RunPaths, sorted(roots - going)):
        # By attempt and step.
        there: dict[tuple[int, int], Path] = {}
        complete: dict[tuple[int, int], Path] = {}
        for number in (int(name) for name in names(run.checkpoints) if name.isdecimal()):
            attempt = run.attempt_checkpoints(number)
            complete |= {(number, step): p for step, p in complete_checkpoints(attempt).items()}
            for name in () if attempt.is_symlink() else names(attempt):
                if match := CHECKPOINT.fullmatch(name):
                    there[number, int(match[1])] = attempt / name
        last = max(complete or there, default=None) if keep != "none" else None
        for place, path in there.items():
            why = f"checkpoint.keep={keep}"
            if place != last:
                yield _Item(path, why, _bytes_of(path), _occupied_run, remove)
            elif keep == "weights" and (states := states_of(path)):
                why = f"its optimiser states, {why}"
                yield _Item(path, why, sum(map(_bytes_of, states)), _occupied_run, keep_weights)


def _occupied_run(checkpoint: Path) -> str | None:
    return _occupied(checkpoint.parents[2])


def _bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files of a directory; links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(
        Path(folder, name).lstat().st_size for folder, _, files in os.walk(path) for name in files
    )


def _show(items: Sequence[_Item], console: Console) -> None:
    if not items:
        say(console, "nothing to remove: every file belongs to a sweep")
        return
    say(console, f"no sweep needs these, {size(sum(item.size for item in items))}:")
    for item in sorted(items, key=lambda item: -item.size)[:_LISTED]:
        say(console, f"  {size(item.size):>8}  {item.path}  ({item.why})")
    if len(items) > _LISTED:
        say(console, f"  and {len(items) - _LISTED} smaller ones")


def _clear(item: _Item, directory: Path, trash: Path) -> str | None:
    """Move the item from `directory` to `trash`, or remove it; why that could not be done, or None.

    It is asked again under its new name, which nobody else uses, whether somebody is at it.
    """
    try:
        why = item.busy(item.path)
        if why is None and item.remove is not None:
            item.remove(item.path)
        elif why is None:
            target = trash / item.path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            item.path.rename(target)
            why = item.busy(target)
            if why is not None:
                target.rename(item.path)
    except OSError as error:
        why = f"{error.strerror}: {error.filename}"
    return None if why is None else f"{item.path} stays: {why}"
