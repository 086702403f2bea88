"""Numbered files that are claimed: whoever creates one first has it, and the highest number counts.

Nothing here relies on a lock, on a clock, or on a file being seen as absent, which network file
systems may answer from a cache: a claim is a hard link, which one process alone can make, and what
is there is found by opening the directory, which such a system looks at anew.
"""

import math
import os
import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from isosweep.files import make_directory, read_json, write_json

T = TypeVar("T")


def claim(path: Path, document: Mapping[str, Any]) -> bool:
    """Create `path` with `document`, unless it is there; whether this call created it.

    A reader sees the whole document or no file. Raises OSError, as `files.write_text` does.
    """
    make_directory(path.parent)
    own = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    write_json(own, document)
    try:
        path.hardlink_to(own)
        return True
    except FileExistsError:
        # A network file system may repeat a request whose answer it lost: then the link is ours.
        return own.stat().st_nlink == 2
    finally:
        own.unlink(missing_ok=True)


def claim_next(directory: Path, document: Mapping[str, Any]) -> int:
    """Create the next number's file in `directory` with `document`; the number."""
    number = highest(directory) + 1
    while not claim(directory / f"{number}.json", document):
        number += 1
    return number


def read_claim(
    kind: type[T], path: Path | str, version: int | None = None, **known: Any
) -> T | None:
    """The document at `path`, with the fields `known`, as a `kind`; None where there is no file.

    Raises ValueError for what is no such document of this `version`.
    """
    document = read_json(path)
    if document is None:
        return None
    if not isinstance(document, dict) or document.pop("version", None) not in (version, None):
        raise ValueError(f"not an object of version {version}")
    try:
        parsed: T = _parser(cast(Any, kind)).validate_python({**document, **known})
        return parsed
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    raise ValueError(f"{where} is {first['input']!r:.80}: {first['msg']}")


@cache
def _parser(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def names(directory: Path | str) -> list[str]:
    """Names of what is in `directory`, hidden files left out; none where there is no directory."""
    try:
        # Of 20,000 directories, what os.scandir adds to the names takes half of the time.
        return [name for name in os.listdir(directory) if not name.startswith(".")]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def highest(directory: Path | str, *, before: float = math.inf) -> int:
    """The highest number that is claimed in `directory`, of those less than `before`; 0 where
    there is none."""
    return highest_of(names(directory), before=before)


def highest_of(there: Iterable[str], *, before: float = math.inf) -> int:
    """The highest number that names begin with, of those less than `before`; 0 where none does."""
    heads = [name.partition(".")[0] for name in there]
    numbers = [int(head) for head in heads if head.isdecimal()]
    return max((number for number in numbers if number < before), default=0)
