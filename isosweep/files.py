"""Files that survive a kill at any instruction: atomic JSON and append-only JSON lines.

What several users may write into can hold links of any of them. So no link of another user is
followed to write or remove anything, as Linux has it in /tmp (proc(5), fs.protected_symlinks); and
below a run (`below`: its directory) no link at all.
"""

import errno
import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

# Reads JSON in half of the time that the standard library takes, to the same numbers.
from pydantic_core import from_json

JsonObject = dict[str, Any]

# Bytes asked of a file at a time; most of ours are smaller.
_AT_ONCE = 1 << 16
# A directory that may be passed need not be one that may be listed; O_PATH is Linux's.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# What Git LFS leaves in place of a file that it has not fetched (git-lfs/docs/spec.md).
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
UNFETCHED = "it is a Git LFS pointer: `git lfs pull` in its repository fetches the file"
# Links in a row that Linux follows (path_resolution(7)).
_MOST_LINKS = 40


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An OSError of what is open already says which file it is about."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def entered(directory: Path, below: Path | None = None) -> Iterator[int]:
    """A descriptor of `directory`, for calls that take `dir_fd`.

    Between `below` and it no link is followed, and on the way no other user's: OSError (ELOOP)
    names one that is there.
    """
    at = directory if below is None else below
    descriptor = _reached(at)
    try:
        for name in directory.relative_to(at).parts:
            inner = _opened(at / name, _LIST, descriptor)
            os.close(descriptor)
            at, descriptor = at / name, inner
        yield descriptor
    finally:
        os.close(descriptor)


def _reached(directory: Path) -> int:
    """A descriptor of `directory`, from / on by no link of another user. Raises OSError."""
    at, links = Path("/"), 0
    left = [*reversed(directory.absolute().parts[1:])]
    descriptor = os.open(at, _PASS)
    try:
        while left:
            name = left.pop()
            try:
                inner = os.open(name, _PASS | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                error.filename = str(at / name)
                links += 1
                if error.errno not in (errno.ELOOP, errno.ENOTDIR) or links > _MOST_LINKS:
                    raise
                target = _target(at / name, descriptor)
                if target is None:
                    raise
                left += [part for part in reversed(target.parts) if part != "/"]
                if not target.is_absolute():
                    continue
                at, inner = Path("/"), os.open("/", _PASS)
            else:
                at = at.parent if name == ".." else at / name
            os.close(descriptor)
            descriptor = inner
        return os.open(".", _LIST, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _target(path: Path, directory: int) -> Path | None:
    """Where a link in the directory of a descriptor leads; None for what is no link.

    Raises OSError for a link that is neither this user's nor root's.
    """
    before = os.lstat(path.name, dir_fd=directory)
    if not stat.S_ISLNK(before.st_mode):
        return None
    target = Path(os.readlink(path.name, dir_fd=directory))
    after = os.lstat(path.name, dir_fd=directory)
    # Another one may have been put in its place meanwhile.
    if before.st_uid not in (os.geteuid(), 0) or before.st_ino != after.st_ino:
        said = "is a link, which is not followed: it is another user's; name what it leads to"
        raise OSError(errno.ELOOP, said, str(path))
    return target


def _opened(path: Path, flags: int, directory: int) -> int:
    """A descriptor of what is called so in the directory of a descriptor, unless it is a link."""
    try:
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=directory)
    except OSError as error:
        error.filename = str(path)
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            _refuse_link(path, os.stat(path.name, dir_fd=directory, follow_symlinks=False))
        raise


def _refuse_link(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a link, which is not followed; remove it", str(path))


def require_no_links(root: Path) -> None:
    """Raise OSError (ELOOP) for a link in the place of `root`, or anywhere below it, and for one of
    another user on the way."""
    with entered(root.parent):
        _refuse_link(root, root.lstat())
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            # Others write there, and take away again.
            with suppress(FileNotFoundError):
                _refuse_link(path, path.lstat())


def remove_tree(directory: Path, below: Path) -> None:
    """Remove a directory and all in it, no link followed between `below` and it. Raises OSError."""
    with entered(directory.parent, below) as parent:
        shutil.rmtree(directory.name, dir_fd=parent)


def make_directories(path: Path) -> None:
    """Make the directory and all above it that are missing, behind no link of another user. Raises
    OSError."""
    with entered(next(place for place in (path, *path.parents) if os.path.lexists(place))):
        path.mkdir(parents=True, exist_ok=True)


def make_within(below: Path, path: Path) -> None:
    """Make `path`, and `below` where that is missing too, no link followed between them. Raises
    OSError."""
    make_directories(below)
    at = below
    for name in path.relative_to(below).parts:
        with entered(at, below) as parent, suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        at = at / name


def make_directory(path: Path) -> None:
    """Make the directory and the one above it, where they are missing, and none further up: a tree
    that was renamed or is away for a while is not made anew in its place. Raises OSError."""
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        path.parent.mkdir(exist_ok=True)
        path.mkdir(exist_ok=True)


def write_json(
    path: Path, document: Mapping[str, Any], *, sync: bool = True, below: Path | None = None
) -> None:
    """Replace `path` by `document`, as `write_text` does."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    write_text(path, text, sync=sync, below=below)


def write_text(path: Path, text: str, *, sync: bool = True, below: Path | None = None) -> None:
    """Replace `path` by `text`, as `write_bytes` does."""
    write_bytes(path, text.encode(), sync=sync, below=below)


def write_bytes(path: Path, content: bytes, *, sync: bool, below: Path | None = None) -> None:
    """Replace `path` by `content` in one step: a reader sees the old or the new, never a part.

    `sync` forces it to the disk: without, a machine that loses power may leave an empty file.
    `below`: as in `entered`. Raises OSError (a full disk, a read-only directory); `path` then
    still holds what it held.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with entered(path.parent, below) as parent:
        try:
            try:
                descriptor = _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, parent)
            except OSError as error:
                error.filename = str(path)
                raise
            with _naming(path), os.fdopen(descriptor, "wb") as file:
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            with _naming(path):
                os.replace(temporary.name, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=parent)


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
    """All bytes of a file, by the system's own calls: a sweep has ten small files a run. A pipe or
    a device in its place, which might be waited for and read for ever, holds nothing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        content = os.read(descriptor, _AT_ONCE)
        if len(content) < _AT_ONCE:
            return content
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        parts = [content]
        while parts[-1]:
            parts.append(os.read(descriptor, _AT_ONCE))
        return b"".join(parts)
    except BlockingIOError:
        return b""
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """A file to be read that is no link, nor behind one of another user: what is read is handed on.
    Raises OSError."""
    with entered(path.parent) as parent:
        descriptor = _opened(path, os.O_RDONLY | os.O_NONBLOCK, parent)
    with os.fdopen(descriptor, "rb") as file:
        yield file


def open_to_append(path: Path, below: Path | None = None) -> int:
    """A descriptor of a file, made if it is missing, that is appended to (and can be read);
    `below`: as in `entered`. It is no link itself: that raises OSError."""
    with entered(path.parent, below) as parent:
        return _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, parent)


def append_line(
    path: Path, document: Mapping[str, Any], *, sync: bool, below: Path | None = None
) -> None:
    """Append `document` as one JSON line in a single write; `sync` also forces it to the disk.

    A line torn by an earlier kill is closed first, so that it never swallows this one. Raises
    OSError when the line does not fit on the disk; lines already written stay as they are.
    `below`: as in `entered`.
    """
    line = (json.dumps(document, allow_nan=False) + "\n").encode()
    descriptor = open_to_append(path, below)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        with _naming(path):
            written = os.write(descriptor, line)
            if written != len(line):
                raise OSError(28, f"only {written} of {len(line)} bytes could be written")
            if sync:
                os.fsync(descriptor)
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
    need not share: what a file that was just written says. Raises OSError."""
    own = directory / f".now.{os.getpid()}.{secrets.token_hex(4)}"
    own.touch()
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
