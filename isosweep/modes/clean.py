"""`mode=clean`: what no sweep needs is listed with its size, and removed with `confirm=true`."""

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import assert_never

from rich.console import Console

from isosweep import words
from isosweep.config.checkpoint import Keep
from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError, SettingError
from isosweep.modes.directory import only_planned, sweep_roots
from isosweep.modes.look import file_now
from isosweep.modes.needed import (
    LEAST_TOLD_BYTES,
    Needs,
    Superfluous,
    What,
    beyond,
    bytes_of,
    doubt,
    leftovers,
    mere_plans,
    needs_of,
    occupied,
    spared,
    superfluous_checkpoints,
)
from isosweep.modes.terminal import say, typed, warn
from isosweep.store import checkpoints
from isosweep.store.claims import names
from isosweep.store.paths import RunPaths
from isosweep.store.state import view_run
from isosweep.store.uses import Use, forget, uses_of
from isosweep.words.numbers import size

# What is listed of each kind, at most; the totals have all.
_LISTED = 20
# What is listed, in this order.
_NAMES: dict[What, tuple[str, str]] = {
    "run": ("run", "{}"),
    "checkpoint": ("checkpoint", "{}"),
    "states": ("checkpoint", "optimiser states of {}"),
    "plan": ("plan", "{}"),
    "leftover": ("leftover", "{}"),
}
# What `size` has a unit for.
_LEAST_BYTES = 1e6


@dataclass
class _Judged:
    """What can go, what could not be judged, and runs that stay since nobody knows: id and why.

    `further`: how many runs keep their checkpoints though fewer were asked for, by the sweep that
    trains them further. `spare`: bytes of checkpoints that such a setting would free.
    """

    found: list[Superfluous] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    further: Counter[str] = field(default_factory=Counter)
    spare: Counter[Keep] = field(default_factory=Counter)


def clean_sweeps(config: SweepConfig, console: Console) -> int:
    """List what no sweep that uses `sweeps_dir` needs; remove it where `confirm` says so.

    With `checkpoint.keep` in the command also what ended runs have beyond that.

    1 where something could not be judged, since a sweep cannot be read, or not removed; else 0.
    Raises SettingError where `forget` names a sweep that no run knows, or that is there.
    """
    directory = Path(config.sweeps_dir).resolve()
    roots = sweep_roots(str(directory))
    asked = config.checkpoint.keep if "checkpoint.keep" in config.given else None
    judged, gone = _judged(directory, roots, config.forget, asked)
    _show(judged, console)
    unsure = bool(judged.faults or judged.kept)
    if not (judged.found or gone):
        return 1 if unsure else 0
    if not config.confirm:
        say(console, "nothing was removed; confirm=true removes what is listed")
        return 1 if unsure else 0
    removed, left = 0, []
    for item in judged.found:
        if (why := _remove(item)) is None:
            removed += item.size
        else:
            left.append(f"not removed: {item.path}: {why}")
    say(console, f"removed {len(judged.found) - len(left)}, {_size(removed)}")
    for run, use in gone:
        try:
            forget(run, use)
        except OSError as error:
            left.append(f"{run.root}: its list of sweeps cannot be written: {error.strerror}")
    say(console, *left, style="yellow")
    return 1 if left or unsure else 0


def _judged(
    directory: Path, roots: list[Path], given: Sequence[str], asked: Keep | None
) -> tuple[_Judged, list[tuple[RunPaths, Use]]]:
    """What can go, and the runs whose lists are to say that a sweep is gone, with that sweep."""
    judged, gone = _Judged(), list[tuple[RunPaths, Use]]()
    runs, needs = directory / "runs", needs_of(roots)
    judged.faults += needs.faults
    if needs.faults:
        line = "so no run and no checkpoint is removed: one of these sweeps may need it"
        judged.faults.append(line)
    elif runs.is_symlink():
        judged.faults.append(f"{runs} is a link, and nothing behind it is touched")
    elif runs.is_dir():
        gone = _judge_runs(runs, needs, given, asked, judged)
    try:
        now = file_now(directory)
        for path in mere_plans(roots, now):
            why = "never launched; the same command plans it again"
            judged.found.append(Superfluous(path, "plan", why, bytes_of(path)))
        for path in leftovers(directory, now):
            judged.found.append(Superfluous(path, "leftover", "left by a kill", bytes_of(path)))
    except OSError as error:
        judged.faults.append(f"{error.filename}: {error.strerror}")
    return judged, gone


def _judge_runs(
    runs: Path, needs: Needs, given: Sequence[str], asked: Keep | None, judged: _Judged
) -> list[tuple[RunPaths, Use]]:
    uses: dict[str, list[Use]] = {}
    for entry in sorted(os.scandir(runs), key=lambda entry: entry.name):
        run = RunPaths(Path(entry.path))
        if entry.is_dir(follow_symlinks=False) and run.spec.exists():
            try:
                uses[run.run_id] = uses_of(run)
            except (RecordError, OSError) as error:
                judged.kept.append((run.run_id, str(error)))
    needs = needs_of(beyond(uses, needs), needs)
    forgotten = {place for name in given for place in _meant(name, uses, needs)}
    gone = []
    for run_id, noted in uses.items():
        run, left = RunPaths(runs / run_id), []
        for use in noted:
            lost = (use.sweep, use.plan_id) in forgotten and not use.gone
            gone += [(run, use)] if lost else []
            left.append(replace(use, gone=use.gone or lost))
        _judge(run, left, needs, asked, judged)
    return gone


def _meant(given: str, uses: Mapping[str, Sequence[Use]], needs: Needs) -> set[tuple[str, str]]:
    """Sweeps that cannot be reached and that `forget=given` means: as noted, and their plans' ids.

    Raises SettingError where there is none.
    """
    noted = [use for each in uses.values() for use in each if not use.gone]
    places = {Path(given).absolute(), Path(given).resolve()}
    named = [use for use in noted if use.sweep == given or places.intersection(use.roots)]
    meant = {(use.sweep, use.plan_id) for use in named if not needs.reaches(use)}
    if meant:
        return meant
    if named:
        rule = "is there, and its plan names runs"
        raise SettingError("forget", given, rule, f"rm -r {quote(str(named[0].roots[-1]))} first")
    lost = sorted({use.sweep for use in noted if not needs.reaches(use)})
    nearest = ", ".join(typed("forget", each) for each in lost[:_LISTED]) or "mode=clean without it"
    raise SettingError("forget", given, "no run's list of sweeps has it", nearest)


def _judge(
    run: RunPaths, uses: Sequence[Use], needs: Needs, asked: Keep | None, judged: _Judged
) -> None:
    """What of one run can go: all of it where no sweep needs it, else checkpoints."""
    need, why, listed = needs.runs.get(run.run_id), doubt(uses, needs), frozenset(names(run.uses))
    if need is not None:
        keep = need.keep
        if asked is not None:
            view = view_run(run)
            keep = need.at_most(asked, view)
            if (further := need.extended_by(view)) is not None and any(names(run.checkpoints)):
                judged.further[further.name] += 1
        spare = superfluous_checkpoints(run, need, keep, listed)
        if spare and why is not None:
            judged.kept.append((run.run_id, why))
            return
        judged.found += spare
        if why is None and asked is None:
            for less in ("weights", "none"):
                judged.spare[less] += spared(run, need, less) - sum(item.size for item in spare)
    elif (busy := occupied(run)) is not None:
        judged.faults.append(f"{run.run_id}: no sweep needs it, and it stays: {busy}")
    elif why is not None:
        judged.kept.append((run.run_id, why))
    else:
        said = "no sweep's plan names it"
        judged.found.append(Superfluous(run.root, "run", said, bytes_of(run.root), listed))


def _show(judged: _Judged, console: Console) -> None:
    warn(console, *judged.faults)
    for what, (name, heading) in _NAMES.items():
        items = [item for item in judged.found if item.what == what]
        if not items:
            continue
        total = _size(sum(item.size for item in items))
        say(console, f"{heading.format(_count(len(items), name))}, {total}:")
        for item in sorted(items, key=lambda item: -item.size)[:_LISTED]:
            say(console, f"  {_size(item.size):>8}  {item.path}  ({item.why})")
        if len(items) > _LISTED:
            say(console, f"  and {len(items) - _LISTED} smaller ones")
    if not judged.found:
        say(console, "nothing to remove: every file belongs to a sweep")
    for sweep, count in judged.further.items():
        said = "keeps its checkpoints" if count == 1 else "keep their checkpoints"
        say(console, f"{_count(count, 'run')} {said}: {sweep} trains further")
    if judged.spare["weights"] >= LEAST_TOLD_BYTES:
        say(console, words.line("terminal", "spare", judged.spare))
    if judged.kept:
        say(console, f"{_count(len(judged.kept), 'run')} kept, since a sweep may need them:")
        for run_id, why in judged.kept[:_LISTED]:
            say(console, f"  {run_id}: {why}", style="yellow")
        if len(judged.kept) > _LISTED:
            say(console, f"  and {len(judged.kept) - _LISTED} more")


def _size(count: float) -> str:
    return size(count) if count >= _LEAST_BYTES else f"{count / 1e3:.3g} kB"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _remove(item: Superfluous) -> str | None:
    """Remove it; why that could not be done, None where it could."""
    try:
        match item.what:
            case "run":
                return occupied(RunPaths(item.path)) or _remove_whole(
                    item.path, lambda hidden: _taken_up(RunPaths(hidden), item)
                )
            case "plan":
                return _remove_whole(item.path, _launched)
            case "checkpoint":
                run = RunPaths(item.path.parent.parent.parent)
                if (why := occupied(run) or _taken_up(run, item)) is not None:
                    return why
                checkpoints.remove(item.path)
            case "states":
                run = RunPaths(item.path.parent.parent.parent)
                if (why := occupied(run) or _taken_up(run, item)) is not None:
                    return why
                checkpoints.keep_weights(item.path)
            case "leftover":
                shutil.rmtree(item.path) if item.path.is_dir() else item.path.unlink()
            case unknown:
                assert_never(unknown)
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None


def _remove_whole(path: Path, kept_by: Callable[[Path], str | None]) -> str | None:
    """Remove a directory unless `kept_by`, asked of it under a name that nobody uses, says why not.

    Under its own name nobody sees half of it; a kill in between leaves a leftover.
    """
    hidden = path.rename(path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}"))
    if (why := kept_by(hidden)) is not None:
        hidden.rename(path)
        return why
    shutil.rmtree(hidden)
    return None


def _taken_up(run: RunPaths, item: Superfluous) -> str | None:
    return None if item.uses.issuperset(names(run.uses)) else "a sweep has just taken it up"


def _launched(root: Path) -> str | None:
    return None if only_planned(root) else "it has just been launched"
