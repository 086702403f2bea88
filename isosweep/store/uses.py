"""Which sweeps use a run: each notes it in the run's directory before it takes the run up.

    uses/<plan id>-<hash of sweep>.json   {"version", "sweep", "near", "plan_id", "first", "gone"}

Each sweep writes a file of its own and replaces it in one step, so that many can do so at once.
`sweep` is where the sweep lies: beside the runs as a path from the directory that holds runs/, so
that both can be moved or copied; elsewhere an absolute one, and `near` is then the path from there.
`first`: the run was not there before, so that its list has every sweep that ever used it.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store.claims import names
from isosweep.store.paths import RunPaths

USE_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Use:
    """That a sweep uses a run. `sweep`: as it was noted; `roots`: where its directory may be now.

    `gone`: somebody has said that it is gone for good.
    """

    sweep: str
    roots: tuple[Path, ...]
    plan_id: str
    first: bool
    gone: bool


def note_use(run: RunPaths, sweep: Path, plan_id: str) -> None:
    """Note that the sweep in the directory `sweep` uses the run, unless it is noted already.

    Comes before anything else is written into the run. Raises OSError.
    """
    home, near = run.root.parent.parent, ""
    if sweep.is_relative_to(home):
        where = str(sweep.relative_to(home))
    else:
        where, near = str(sweep), os.path.relpath(sweep, home)
    path = _file(run, where, plan_id)
    known = _read(run, path)
    if known is not None and not known.gone:
        return
    run.uses.mkdir(exist_ok=True)
    first = not run.spec.exists() or (known is not None and known.first)
    document = {"sweep": where, "near": near, "plan_id": plan_id, "first": first, "gone": False}
    write_json(path, {"version": USE_VERSION, **document})


def uses_of(run: RunPaths) -> list[Use]:
    """The sweeps that have noted that they use the run. Raises RecordError, or OSError."""
    found = [_read(run, run.uses / name) for name in names(run.uses)]
    return [use for use in found if use is not None]


def forget(run: RunPaths, use: Use) -> None:
    """Write down that a sweep is gone for good. Raises OSError."""
    path = _file(run, use.sweep, use.plan_id)
    document = read_json(path)
    if document is not None:
        write_json(path, document | {"gone": True})


def _file(run: RunPaths, sweep: str, plan_id: str) -> Path:
    return run.uses / f"{plan_id}-{hashlib.sha256(sweep.encode()).hexdigest()[:12]}.json"


def _read(run: RunPaths, path: Path) -> Use | None:
    try:
        document = read_json(path)
        if document is None:
            return None
        if document["version"] != USE_VERSION:
            raise ValueError(f"not version {USE_VERSION}")
        places = [document["near"], document["sweep"]]
        home = run.root.parent.parent
        return Use(
            sweep=document["sweep"],
            roots=tuple(Path(os.path.normpath(home / place)) for place in places if place),
            plan_id=document["plan_id"],
            first=document["first"] is True,
            gone=document["gone"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path}: not a sweep that uses the run ({error!r})") from None
