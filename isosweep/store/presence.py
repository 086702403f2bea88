"""Directories that are away for a while: renamed, or on a file system that does not answer."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# What is said of a path that leads nowhere now, and of a server or a mount that is gone.
_AWAY = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.EIO, errno.ENODEV, errno.ENXIO),
        *(errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EREMOTEIO),
    )
)
# What an error says of it.
AWAY = "is away (renamed, or its file system does not answer)"
# Between two looks at what is away.
LOOK_S = 1.0
# How often a write is tried again that fails although its directory is there.
_TRIES = 3


def _is_away(error: OSError) -> bool:
    """Whether it may mean that what was there is away, and not that it cannot be used."""
    return error.errno in _AWAY


def there(directory: Path) -> bool:
    """Whether something lies in the directory: it is opened, since network file systems answer a
    `stat` from memory, and a mount that is gone leaves an empty one."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except OSError as error:
        return not _is_away(error)


def wait_for(directory: Path, leave: Callable[[], bool]) -> None:
    """Return once the directory is there. Raises FileNotFoundError where `leave` says so before."""
    while not there(directory):
        if leave():
            raise FileNotFoundError(errno.ENOENT, "it is away", str(directory))
        time.sleep(LOOK_S)


def persist(write: Callable[[], T], directory: Path, leave: Callable[[], bool]) -> T:
    """What `write` returns; where `directory` is away, once it is back. Raises as `write` does
    where that is not why it fails, and as `wait_for`."""
    tries = 0
    while True:
        try:
            return write()
        except OSError as error:
            tries += there(directory)
            if not _is_away(error) or tries >= _TRIES:
                raise
        wait_for(directory, leave)
