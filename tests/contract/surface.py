"""How settings, files and fields are called on isosweep's public surfaces.

Tests of `tests/contract` use commands, their files and `import isosweep` alone, and reach them
through this file: a renaming changes it, and no rewrite of the code behind changes any other.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import isosweep, refused

__all__ = ["answer_of", "import_rows", "isosweep", "refused", "write_csv"]


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write rows that have the same columns, and return the path."""
    listed = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    return path


def answer_of(sweep_dir: Path, quantity: str = "enough") -> dict[str, Any]:
    """What the analysis of a sweep concluded of n_d (`enough`) or n* (`best`)."""
    view = sweep_dir / "analysis" / ("" if quantity == "enough" else f"n={quantity}")
    document: dict[str, Any] = json.loads((view / "answer.json").read_text())
    return document


def import_rows(
    cwd: Path,
    rows: Iterable[Mapping[str, object]],
    *overrides: str,
    name: str = "imported",
    quantity: str = "enough",
) -> tuple[str, dict[str, Any]]:
    """Import a table, with `overrides`, and analyse it: what the terminal shows, and the answer."""
    table = write_csv(cwd / f"{name}.csv", rows)
    imported = isosweep("mode=import", f"from={table}", f"name={name}", *overrides, cwd=cwd)
    judged = f"analysis.quantity={quantity}"
    done = isosweep("mode=analyse", f"name={name}", "analysis.formats=[]", judged, cwd=cwd)
    said = imported.stdout + imported.stderr + done.stdout + done.stderr
    return said, answer_of(cwd / "sweeps" / name, quantity)
