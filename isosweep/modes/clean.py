"""`mode=clean`: what no sweep needs is listed with its size; `confirm=true` moves it to trash/."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError, RecordError
from isosweep.files import names
from isosweep.modes.directory import StoredSweep, never_launched, read_sweep, sweep_roots
from isosweep.modes.terminal import say, warn
from isosweep.reserved import RUNS, TRASH
from isosweep.store.attempts import highest, read
from isosweep.store.paths import RunPaths
from isosweep.words.numbers import size

# What is listed, at most; the total has all.
_LISTED = 20
# Seconds after which nobody is about to launch what a plan was just shown of.
_PLANNED_S = 3600.0


@dataclass(frozen=True)
class _Item:
    """What no sweep needs and why. `busy`: why it may not be touched at this moment, None if it
    may."""

    path: Path
    why: str
    size: int
    busy: Callable[[Path], str | None]


def clean_sweeps(config: SweepConfig, console: Console) -> int:
    """List what no sweep in `sweeps_dir` needs; move it to `trash/` where `confirm` says so.

    Returns 1 where a sweep cannot be read, so that nothing is touched, or one is busy; else 0.
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
    found = [*_mere_plans(sweeps), *_unneeded_runs(directory / RUNS, sweeps)]
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
    say(console, f"{len(items) - len(left)} of {len(items)} moved")
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
    run = RunPaths(root)
    if not (number := highest(run)):
        return None
    try:
        attempt = read(run, number)
    except RecordError as error:
        # Nothing that cannot be read is taken for an ended run.
        return str(error)
    return "somebody is, or may be, at it" if attempt.live and not attempt.gone else None


def _bytes_of(path: Path) -> int:
    """Bytes of all files of a directory; links are not followed."""
    return sum(
        Path(folder, name).lstat().st_size for folder, _, files in os.walk(path) for name in files
    )


def _show(items: Sequence[_Item], console: Console) -> None:
    if not items:
        say(console, "nothing to move: every file belongs to a sweep")
        return
    say(console, f"no sweep needs these, {size(sum(item.size for item in items))}:")
    for item in sorted(items, key=lambda item: -item.size)[:_LISTED]:
        say(console, f"  {size(item.size):>8}  {item.path}  ({item.why})")
    if len(items) > _LISTED:
        say(console, f"  and {len(items) - _LISTED} smaller ones")


def _clear(item: _Item, directory: Path, trash: Path) -> str | None:
    """Move the item from `directory` to `trash`; why that could not be done, or None.

    It is asked again under its new name, which nobody else uses, whether somebody is at it.
    """
    try:
        why = item.busy(item.path)
        if why is None:
            target = trash / item.path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            item.path.rename(target)
            why = item.busy(target)
            if why is not None:
                target.rename(item.path)
    except OSError as error:
        why = f"{error.strerror}: {error.filename}"
    return None if why is None else f"{item.path} stays: {why}"
