"""Write settings and plans of the archives anew, as this version writes them.

    python docs/studies/renew.py

Settings and fields of plans that this version does not have are left out, new ones take the values
that they have where a sweep was stored without them. Records and all other files stay as they are.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from isosweep.config.base import Settings
from isosweep.config.compose import config_of
from isosweep.files import to_json
from isosweep.modes.sweeps import read_sweep
from isosweep.plan.cells import Cell, PlannedRun

PLACE = Path(__file__).parent


def known(stored: Any, template: object) -> Any:
    """What of `stored` is a setting in `template`, the same group with its default values."""
    if not isinstance(template, Settings) or not isinstance(stored, Mapping):
        return stored
    names = type(template).model_fields
    return {name: known(stored[name], getattr(template, name)) for name in names if name in stored}


def renewed(root: Path) -> dict[str, bytes]:
    """What the two documents of the sweep in `root` come to, by their names."""
    settings = json.loads((root / "config.json").read_text())
    plan = json.loads((root / "plan.json").read_text())
    for key, kind in (("cells", Cell), ("runs", PlannedRun)):
        names = {field.name for field in fields(kind)}
        plan[key] = [{n: v for n, v in each.items() if n in names} for each in plan[key]]
    settings = known(settings, config_of([]))
    _write(root, {"config.json": settings, "plan.json": plan})
    sweep = read_sweep(root)
    where = {name: settings.get(name) for name in ("sweeps_dir", "sweep")}
    heading = {"kind": sweep.kind, "imported": None}
    return _write(
        root,
        {
            "config.json": sweep.config.model_dump() | {"given": []} | where,
            "plan.json": plan | heading | asdict(sweep.plan),
        },
    )


def _write(root: Path, documents: Mapping[str, Any]) -> dict[str, bytes]:
    texts = {name: f"{json.dumps(to_json(each), indent=1)}\n" for name, each in documents.items()}
    for name, text in texts.items():
        (root / name).write_text(text)
    return {name: text.encode() for name, text in texts.items()}


def renew(archive: Path) -> None:
    """Replace the archive by one with the same files in the same order."""
    with tempfile.TemporaryDirectory() as directory, tarfile.open(archive) as old:
        old.extractall(directory, filter="data")
        plans = sorted(Path(directory).glob("*/plan.json"))
        new = {
            f"{path.parent.name}/{name}": text
            for path in plans
            for name, text in renewed(path.parent).items()
        }
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:xz", preset=9) as written:
            for member in old.getmembers():
                content = old.extractfile(member)
                data = b"" if content is None else new.get(member.name, content.read())
                member.size = len(data)
                written.addfile(member, io.BytesIO(data))
    archive.write_bytes(held.getvalue())


if __name__ == "__main__":
    for each in sorted(PLACE.glob("*.tar.xz")):
        renew(each)
