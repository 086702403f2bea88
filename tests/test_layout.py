"""Imports never go up a floor of docs/architecture.md, nor across between rooms of one floor."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# From the top. Rooms of one floor do not import each other.
FLOORS = (
    ("__main__", "door"),
    ("modes",),
    ("preflight",),
    ("launchers", "search"),
    ("analysis", "training", "tracking"),
    ("plan",),
    ("difficulty",),
    ("models",),
    ("tasks", "costs"),
    ("config", "store", "schemas"),
    ("gguf", "words"),
    (
        *("errors", "files", "ownership", "commands", "compute", "heldout", "machine"),
        *("devices", "evidence", "metrics", "sandbox", "version"),
        "__init__",
    ),
)
# What `import isosweep` offers, and imports when it is asked for: tests/door/test_light.py.
OFFERED = (("__init__", "door"), ("__init__", "errors"), ("__init__", "version"))
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def sources() -> list[tuple[str, Path]]:
    """Every module with its room: the first folder, or the file's own name."""
    modules = []
    for folder in ("isosweep", "analysis", "launchers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if folder == "isosweep" and parts[1] in ("analysis", "launchers"):
                continue  # links to the other two
            modules.append((parts[1] if folder == "isosweep" else folder, path))
    return modules


def imported_rooms(path: Path) -> list[tuple[str, int]]:
    """Rooms of isosweep that a module imports, anywhere in it, and the line."""
    rooms = []
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"isosweep.{alias.name}" for alias in node.names]
                if node.module == "isosweep"
                else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "isosweep":
                room = rest.partition(".")[0]
                line = getattr(node, "lineno", 0)
                rooms.append((room if room in FLOOR_OF else "__init__", line))
    return rooms


def test_every_room_has_a_floor() -> None:
    assert {room for room, _ in sources()} <= FLOOR_OF.keys()


@pytest.mark.parametrize("room", sorted({room for room, _ in sources()}))
def test_imports_never_go_up_or_across(room: str) -> None:
    climbs = [
        f"{path.relative_to(ROOT)}:{line}: {room} (floor {FLOOR_OF[room]}) imports {other}"
        for own, path in sources()
        if own == room
        for other, line in imported_rooms(path)
        if other != room and FLOOR_OF[other] <= FLOOR_OF[room] and (room, other) not in OFFERED
    ]
    assert not climbs, "\n".join(climbs)
