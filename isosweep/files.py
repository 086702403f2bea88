"""Files that survive a kill at any instruction: atomic JSON and append-only JSON lines.

Nothing is appended to what a link leads to, and a link in the place of a file that is replaced is
replaced itself.
"""

import errno
import json
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

# Reads JSON in half of the time that the standard library takes, to the same numbers.
from pydantic_core import from_json

JsonObject = dict[str, Any]

# Bytes asked of a file at a time; most of ours are smaller.
_AT_ONCE = 1 << 16
# What Git LFS leaves in place of a file that it has not fetched (git-lfs/docs/spec.md).
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
UNFETCHED = "it is a Git LFS pointer: `git lfs pull` in its repository fetches the file"


def make_directory(path: Path) -> None:
    """Make the directory and the one above it, where they are missing, and none further up: a tree
    that was renamed or is away for a while is not made anew in its place. Raises OSError."""
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        path.parent.mkdir(exist_ok=True)
        path.mkdir(exist_ok=True)


def write_json(path: Path, document: Mapping[str, Any], *, sync: bool = True) -> None:
    """Replace `path` by `document`, as `write_bytes` does."""
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n", sync=sync)


def write_text(path: Path, text: str, *, sync: bool = True) -> None:
    """Replace `path` by `text`, as `write_bytes` does."""
    write_bytes(path, text.encode(), sync=sync)


def write_bytes(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace `path` by `content` in one step: a reader sees the old or the new, never a part.

    `sync` forces it to the disk: without, a machine that loses power may leave an empty file.
    Raises OSError (a full disk, a read-only directory); `path` then still holds what it held.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def create_json(path: Path, document: Mapping[str, Any]) -> bool:
    """Create `path` with `document`, unless it is there; whether this call created it.

    A reader sees the whole document or no file: a hard link is made of one that is whole. Raises
    OSError, as `write_bytes` does.
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


def names(directory: Path | str) -> list[str]:
    """Names in a directory, as it is now; none where there is no directory."""
    try:
        return [name for name in os.listdir(directory) if not name.startswith(".")]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def highest_of(there: Iterable[str]) -> int:
    """The highest number that one of the names begins with, as in `3.json`; 0 where none does."""
    heads = (name.partition(".")[0] for name in there)
    return max((int(head) for head in heads if head.isdecimal()), default=0)


def read_json(path: Path | str) -> JsonObject | None:
    """The document at `path`, or None where there is none.

    Raises ValueError where something else is there: other text, binary, a directory.
    """
    try:
        document: JsonObject = from_json(_content(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise ValueError("a directory where a file belongs") from None
    return document


def read_foreign_json(path: Path) -> JsonObject:
    """The JSON object in a file that isosweep did not write.

    Raises OSError, and ValueError that says what the file holds instead.
    """
    content = path.read_bytes()
    if content.startswith(LFS_POINTER):
        raise ValueError(UNFETCHED)
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")
    return document


def _content(path: Path | str) -> bytes:
    """All bytes of a file, by the system's own calls: a sweep has ten small files a run."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(descriptor, _AT_ONCE)]
        while len(parts[-1]) == _AT_ONCE:
            parts.append(os.read(descriptor, _AT_ONCE))
        return b"".join(parts)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def open_plain(path: Path | str, flags: int) -> int:
    """Return a descriptor of a file that is no link: the `opener` of `open`. Raises OSError."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def open_to_append(path: Path) -> int:
    """Return a descriptor of a file, made if it is missing, that is appended to and can be read.
    Raises OSError where it is a link."""
    return open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def append_line(path: Path, document: Mapping[str, Any], *, sync: bool) -> None:
    """Append `document` as one JSON line in a single write; `sync` also forces it to the disk.

    A line torn by an earlier kill is closed first, so that it never swallows this one. Raises
    OSError when the line does not fit on the disk; lines already written stay as they are.
    """
    line = (json.dumps(document, allow_nan=False) + "\n").encode()
    descriptor = open_to_append(path)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes could be written")
        if sync:
            os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and lines of a file that are not empty; an absent file has none."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line and not line.isspace():
            yield number, line


def read_lines(path: Path) -> Iterator[tuple[int, JsonObject | None]]:
    """Line numbers (from 1) and documents of a JSON lines file; None for a line that is torn."""
    for number, line in numbered_lines(path):
        try:
            document = from_json(line)
        except ValueError:
            document = None
        yield number, document if isinstance(document, dict) else None


def file_system_time(directory: Path) -> float:
    """The time by the clock of the file system that `directory` is on, which other hosts' clocks
    need not share: what a file that was just written says. This machine's where this user may not
    write. Raises OSError."""
    own = directory / f".now.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        own.touch()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return time.time()
        raise
    try:
        return own.stat().st_mtime
    finally:
        own.unlink(missing_ok=True)


def to_json(value: Any) -> Any:
    """`value` with None for numbers that JSON cannot hold, and enums by their values."""
    match value:
        case Mapping():
            return {key: to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case Enum():
            return value.value
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
