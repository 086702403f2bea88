"""Imports never go up a floor, nor across between rooms of one floor (docs/architecture.md)."""

import re
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
    ("importing",),
    ("plan",),
    ("difficulty",),
    ("models",),
    ("tasks", "costs"),
    ("config", "store"),
    ("words", "metrics", "gguf", "job"),
    (
        *("errors", "files", "ownership", "commands", "compute", "heldout", "machine"),
        *(
            "devices",
            "evidence",
            "health",
            "pricing",
            "reserved",
            "sandbox",
            "version",
        ),
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


# What a statement imports of isosweep, wherever it stands in a module: a room, or names of rooms.
_IMPORT = re.compile(r"\s*(?:from|import) isosweep(?:\.(\w+)| import (.+)|$)")


def imported_rooms(path: Path) -> list[tuple[str, int]]:
    """Rooms of isosweep that a module imports, anywhere in it, and the line."""
    rooms = []
    types_alone = False
    for line, text in enumerate(path.read_text().splitlines(), start=1):
        types_alone = text.startswith("if TYPE_CHECKING") or (types_alone and text[:1] in "  ")
        if types_alone and path.parent.name == "words":
            continue  # Sentences are over the types of all rooms, and run without them.
        if found := _IMPORT.match(text):
            names = re.findall(r"(\w+)(?: as \w+)?", found[2] or "") or ["__init__"]
            named = [found[1]] if found[1] else names
            rooms += [(name if name in FLOOR_OF else "__init__", line) for name in named]
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
