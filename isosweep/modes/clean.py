"""`mode=clean`: what no sweep needs is listed with its size, and removed with `confirm=true`."""

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.costs.checkpoints import size
from isosweep.errors import RecordError
from isosweep.modes.directory import sweep_roots
from isosweep.modes.look import file_now
from isosweep.modes.needed import (
    Needs,
    Superfluous,
    asking_sweeps,
    bytes_of,
    leftovers,
    needs_of,
    occupied,
    superfluous_checkpoints,
)
from isosweep.store import checkpoints
from isosweep.store.paths import RunPaths

# What is listed of each kind, at most; the totals have all.
_LISTED = 20
# What `size` has a unit for.
_LEAST_BYTES = 1e6


def clean_sweeps(config: SweepConfig, console: Console) -> int:
    """List what no sweep in `sweeps_dir` needs; remove it where `confirm` says so.

    1 where something could not be judged, since a sweep cannot be read, or not removed; else 0.
    """
    directory = Path(config.sweeps_dir).resolve()
    needs = needs_of(sweep_roots(str(directory)))
    found, faults = _superfluous(directory, needs)
    for fault in faults:
        console.print(f"warning: {fault}", style="yellow", markup=False, soft_wrap=True)
    _show(found, console)
    if not found:
        return 1 if faults else 0
    if not config.confirm:
        console.print("nothing was removed; confirm=true removes what is listed")
        return 1 if faults else 0
    removed, kept = 0, []
    for item in found:
        if (why := _remove(item)) is None:
            removed += item.size
        else:
            kept.append(f"{item.path}: {why}")
    console.print(f"removed {len(found) - len(kept)}, {_size(removed)}")
    for line in kept:
        console.print(f"not removed: {line}", style="yellow", markup=False, soft_wrap=True)
    return 1 if kept or faults else 0


def _superfluous(directory: Path, needs: Needs) -> tuple[list[Superfluous], list[str]]:
    """What can go, and what could not be judged."""
    found: list[Superfluous] = []
    runs = directory / "runs"
    faults = list(needs.faults)
    if needs.faults:
        faults.append("so no run and no checkpoint is removed: one of these sweeps may need it")
    elif runs.is_symlink():
        faults.append(f"{runs} is a link, and nothing behind it is touched")
    elif runs.is_dir():
        for entry in sorted(os.scandir(runs), key=lambda entry: entry.name):
            run = RunPaths(Path(entry.path))
            if entry.is_dir(follow_symlinks=False) and run.spec.exists():
                found += _of_run(run, needs, faults)
    try:
        now = file_now(directory)
        found += [
            Superfluous(path, "leftover", "left by a kill", bytes_of(path))
            for path in leftovers(directory, now)
        ]
    except OSError as error:
        faults.append(f"{error.filename}: {error.strerror}")
    return found, faults


def _of_run(run: RunPaths, needs: Needs, faults: list[str]) -> Iterator[Superfluous]:
    """What of one run can go: all of it where no sweep names it, else checkpoints."""
    need = needs.runs.get(run.run_id)
    if need is not None:
        for path in superfluous_checkpoints(run, need):
            yield Superfluous(path, "checkpoint", f"checkpoint.keep={need.keep}", bytes_of(path))
        return
    if (why := occupied(run)) is not None:
        faults.append(f"{run.run_id}: no sweep needs it, and it stays: {why}")
        return
    try:
        elsewhere = [root for root in asking_sweeps(run) if (root / "plan.json").exists()]
        others = needs_of(elsewhere)
    except RecordError as error:
        faults.append(f"{run.run_id} stays: {error}")
        return
    if others.faults:
        faults.append(f"{run.run_id} stays: {others.faults[0]}")
    elif run.run_id not in others.runs:
        yield Superfluous(run.root, "run", "no sweep's plan names it", bytes_of(run.root))


def _size(count: float) -> str:
    return size(count) if count >= _LEAST_BYTES else f"{count / 1e3:.3g} kB"


def _show(found: list[Superfluous], console: Console) -> None:
    for what in ("run", "checkpoint", "leftover"):
        items = [item for item in found if item.what == what]
        if not items:
            continue
        total = _size(sum(item.size for item in items))
        plural = what if len(items) == 1 else f"{what}s"
        console.print(f"{len(items)} {plural}, {total}:", markup=False)
        for item in sorted(items, key=lambda item: -item.size)[:_LISTED]:
            line = f"  {_size(item.size):>8}  {item.path}  ({item.why})"
            console.print(line, markup=False, soft_wrap=True)
        if len(items) > _LISTED:
            console.print(f"  and {len(items) - _LISTED} smaller ones")
    if not found:
        console.print("nothing is there that no sweep needs")


def _remove(item: Superfluous) -> str | None:
    """Remove it; why that could not be done, None where it could."""
    try:
        if item.what == "run":
            if (why := occupied(RunPaths(item.path))) is not None:
                return why
            # Under its name nobody sees half of it; a kill in between leaves a leftover.
            hidden = f".{item.path.name}.{os.getpid()}.{secrets.token_hex(4)}"
            shutil.rmtree(item.path.rename(item.path.with_name(hidden)))
        elif item.what == "checkpoint":
            if (why := occupied(RunPaths(item.path.parent.parent.parent))) is not None:
                return why
            checkpoints.remove(item.path)
        elif item.path.is_dir():
            shutil.rmtree(item.path)
        else:
            item.path.unlink()
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None
