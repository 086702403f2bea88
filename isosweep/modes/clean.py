"""`mode=clean`: runs that no sweep names are listed; `confirm=true` moves them to `trash/`."""

import os
import time
from pathlib import Path
from shlex import quote
from typing import Final

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.files import names
from isosweep.modes.sweeps import planned_run_ids, sweep_roots
from isosweep.modes.terminal import say, show_json, warn
from isosweep.reserved import RUNS, TRASH
from isosweep.store.attempts import highest, read
from isosweep.store.paths import RunPaths
from isosweep.words.numbers import size

# Raised when a field of the document goes or changes its meaning; fields may be added.
VERSION: Final = 1
# Runs that are listed in words, the largest first; a document has all.
_LISTED = 20


def clean_sweeps(config: SweepConfig, console: Console) -> int:
    """List the runs that no plan in `sweeps_dir` names; move them to `trash/` if `confirm` is set.

    Returns 1 where one of them stays, since a worker may be at it or it cannot be moved, else 0.
    Raises RecordError for a plan whose runs cannot be read: it may name any of them.
    """
    directory = Path(config.sweeps_dir).resolve()
    needed, found = _needed(directory), names(directory / RUNS)
    unnamed = [RunPaths(directory / RUNS / name) for name in found if name not in needed]
    # What a link leads to is kept elsewhere.
    runs = [run for run in unnamed if run.spec.exists() and not run.root.is_symlink()]
    stay = {str(run.root): why for run in runs if (why := _occupied(run))}
    sizes = {run.root: _bytes_of(run.root) for run in runs if str(run.root) not in stay}
    trash = None
    if sizes and config.confirm:
        trash = directory / TRASH / time.strftime("%Y-%m-%d-%H%M%S") / RUNS
        # Measuring what is large takes minutes, in which somebody may have planned with a run.
        needed = _needed(directory)
        for root in sizes:
            if why := "a plan names it now" if root.name in needed else _move(root, trash):
                stay[str(root)] = why
    if config.format == "json":
        items = [{"path": str(root), "bytes": count} for root, count in sizes.items()]
        document = {"version": VERSION, "sweeps_dir": str(directory), "items": items, "stay": stay}
        show_json(console, document | {"moved_to": trash and str(trash)})
    else:
        _show(sizes, stay, trash, console)
    return 1 if stay else 0


def _needed(directory: Path) -> set[str]:
    """Ids of the runs that plans of `directory` name."""
    return set[str]().union(*map(planned_run_ids, sweep_roots(str(directory))))


def _show(
    sizes: dict[Path, int], stay: dict[str, str], trash: Path | None, console: Console
) -> None:
    """Print what no sweep needs, what stays and why, and where the rest was moved."""
    if sizes:
        say(console, f"no sweep needs these, {size(sum(sizes.values()))}:")
    for root in sorted(sizes, key=lambda root: -sizes[root])[:_LISTED]:
        say(console, f"  {size(sizes[root]):>8}  {root}  (no sweep's plan names it)")
    if len(sizes) > _LISTED:
        say(console, f"  and {len(sizes) - _LISTED} smaller ones")
    warn(console, *(f"{root} stays: {why}" for root, why in stay.items()))
    if not sizes:
        say(console, "nothing to move: every run belongs to a sweep")
    elif trash is None:
        say(console, "nothing was moved; confirm=true moves what is listed to trash/")
    else:
        moved = sum(str(root) not in stay for root in sizes)
        say(console, f"{moved} of {len(sizes)} moved")
        if moved:
            say(console, f"to free the space: rm -r {quote(str(trash.parent))}")


def _move(root: Path, trash: Path) -> str | None:
    """Move a run to `trash`; return why that could not be done, or None.

    It is asked again under its new name, which nobody else uses, whether somebody is at it.
    """
    target = trash / root.name
    try:
        if why := _occupied(RunPaths(root)):
            return why
        trash.mkdir(parents=True, exist_ok=True)
        root.rename(target)
        if why := _occupied(RunPaths(target)):
            target.rename(root)
            return why
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None


def _occupied(run: RunPaths) -> str | None:
    """Why the run may not be moved; None where no worker has it."""
    try:
        attempt = read(run, number) if (number := highest(run)) else None
    except RecordError as error:
        return str(error)
    live = attempt is not None and attempt.live and not attempt.gone
    return "a worker has it, or may have it" if live else None


def _bytes_of(path: Path) -> int:
    """Bytes of all files of a directory; links are not followed."""
    return sum(
        Path(folder, name).lstat().st_size for folder, _, files in os.walk(path) for name in files
    )
