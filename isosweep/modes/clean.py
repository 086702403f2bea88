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
from isosweep.modes.sweeps import read_sweep, sweep_roots
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

    Returns 1 where somebody may be at one of them, which stays, else 0. Raises what `read_sweep`
    raises: an unreadable plan may name any of the runs.
    """
    directory = Path(config.sweeps_dir).resolve()
    needed = {
        run.run_id for root in sweep_roots(str(directory)) for run in read_sweep(root).plan.runs
    }
    found = [RunPaths(directory / RUNS / name) for name in names(directory / RUNS)]
    unnamed = [run for run in found if run.run_id not in needed and run.spec.exists()]
    busy = {str(run.root): why for run in unnamed if (why := _occupied(run))}
    sizes = {run.root: _bytes_of(run.root) for run in unnamed if str(run.root) not in busy}
    trash = None
    if sizes and config.confirm:
        trash = directory / TRASH / time.strftime("%Y-%m-%d-%H%M%S") / RUNS
        trash.mkdir(parents=True)
        for root in sizes:
            root.rename(trash / root.name)
    if config.format == "json":
        items = [{"path": str(root), "bytes": count} for root, count in sizes.items()]
        document = {"version": VERSION, "sweeps_dir": str(directory), "items": items, "busy": busy}
        show_json(console, document | {"moved_to": trash and str(trash)})
        return 1 if busy else 0
    warn(console, *(f"{root} stays: {why}" for root, why in busy.items()))
    if not sizes:
        say(console, "nothing to move: every run belongs to a sweep")
        return 1 if busy else 0
    say(console, f"no sweep needs these, {size(sum(sizes.values()))}:")
    for root in sorted(sizes, key=lambda root: -sizes[root])[:_LISTED]:
        say(console, f"  {size(sizes[root]):>8}  {root}  (no sweep's plan names it)")
    if len(sizes) > _LISTED:
        say(console, f"  and {len(sizes) - _LISTED} smaller ones")
    if trash is None:
        say(console, "nothing was moved; confirm=true moves what is listed to trash/")
    else:
        say(console, f"{len(sizes)} of {len(sizes)} moved")
        say(console, f"to free the space: rm -r {quote(str(trash.parent))}")
    return 1 if busy else 0


def _occupied(run: RunPaths) -> str | None:
    """Why the run may not be moved: somebody is, or may be, at it; None where nobody is."""
    if run.root.is_symlink():
        return "it is a link"
    try:
        attempt = read(run, number) if (number := highest(run)) else None
    except RecordError as error:
        return str(error)
    live = attempt is not None and attempt.live and not attempt.gone
    return "somebody is, or may be, at it" if live else None


def _bytes_of(path: Path) -> int:
    """Bytes of all files of a directory; links are not followed."""
    return sum(
        Path(folder, name).lstat().st_size for folder, _, files in os.walk(path) for name in files
    )
