"""Data files that a task's settings name: where they lie, and the hash of their content."""

import hashlib
from pathlib import Path
from typing import Any

from isosweep.config.evaluation_sets import of_set
from isosweep.config.mixture import of_part
from isosweep.errors import SettingError

_KINDS = ("math", "code")
# Settings that name a data file.
PATHS = tuple(f"task.{kind}.path" for kind in _KINDS)
# What of a mixture may be null, for the sum of its parts'.
NUMBERS = ("num_train_problems", "num_eval_problems")


def find_data(task: dict[str, Any]) -> None:
    """Make the paths of a task absolute, and take the sha256 of its data file.

    Of a mixture, those of its parts; numbers of problems that are null are the sums of theirs.
    """
    for kind, setting in zip(_KINDS, PATHS, strict=True):
        source = task.get(kind)
        if source and source.get("path") is not None:
            source["path"] = str(Path(source["path"]).absolute())
            source["data_sha256"] = file_sha256(setting, source["path"])
    own = task.get("custom")
    if own and own.get("directory") is not None:
        own["directory"] = str(Path(own["directory"]).absolute())
    if task.get("mixture"):
        _find_parts(task)


def _find_parts(task: dict[str, Any]) -> None:
    parts = task["mixture"].get("parts")
    own = {n: part for n, part in parts.items() if isinstance(part, dict)} if parts else {}
    for name, part in own.items():
        try:
            find_data(part)
        except SettingError as error:
            raise of_part(name, error) from None
    for number in NUMBERS:
        if task.get(number) is None:
            counts = [part.get(number) for part in own.values()]
            # Where one has none, that is what is said.
            task[number] = sum(count for count in counts if isinstance(count, int)) or 1


def find_data_of_sets(evaluation: dict[str, Any]) -> None:
    """As `find_data`, for the evaluation's further sets."""
    sets = evaluation.get("sets")
    for name, own in sets.items() if isinstance(sets, dict) else ():
        if isinstance(own, dict) and isinstance(own.get("task"), dict):
            try:
                find_data(own["task"])
            except SettingError as error:
                raise of_set(name, error) from None


def file_sha256(setting: str, path: str) -> str:
    """Sha256 of the file at `path`. Raises SettingError where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SettingError(setting, path, f"cannot be read ({error.strerror})") from None
