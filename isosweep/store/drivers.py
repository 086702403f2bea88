"""Who follows a sweep: one process at a time, the one that claimed the highest number.

    drivers/2.json   {"user", "by": {host, pid, start}, "unix_time", "exit_status"}

A driver replaces its own file every BEAT_S s, and when it leaves with its `exit_status`.
"""

import getpass
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from isosweep.errors import RecordError
from isosweep.files import create_json, file_system_time, highest_of, names, read_json, write_json
from isosweep.store.attempts import Process

BEAT_S = 15.0
# A driver on another host that has been silent for so long is gone: eight beats, and longer than a
# network file system shows an old time (60 s, acdirmax of nfs(5)).
DRIVER_SILENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process that follows a sweep, or did: then `exit_status` is there, if it could write it."""

    number: int
    by: Process
    user: str
    unix_time: float
    exit_status: int | None = None


_DRIVER = TypeAdapter(Driver)


def living_driver(directory: Path) -> Driver | None:
    """Who follows the sweep now; None where nobody does.

    `directory`: the sweep's `drivers`. Raises RecordError where that cannot be read.
    """
    number = highest_of(names(directory))
    path = directory / f"{number}.json"
    try:
        document = read_json(path)
        driver = document and _DRIVER.validate_python({**document, "number": number})
    except (TypeError, ValueError) as error:
        words = str(error).replace("\n", " ")
        rule = "remove it if no process follows the sweep"
        raise RecordError(f"{path}: not a driver of a sweep ({words}); {rule}") from None
    if not driver or driver.exit_status is not None:
        return None
    alive = driver.by.alive()
    if alive is None:
        alive = file_system_time(directory) - path.stat().st_mtime < DRIVER_SILENCE_S
    return driver if alive else None


class Claim:
    """That this process follows a sweep, until `release`."""

    def __init__(self, directory: Path, driver: Driver) -> None:
        self._directory, self._driver = directory, driver
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="driver", daemon=True)
        self._thread.start()

    def release(self, status: int) -> None:
        """Leave with an exit status."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        self._driver = replace(self._driver, exit_status=status)
        self._write()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            self._write()

    def _write(self) -> None:
        # A disk that is full, or away for a while, ends no sweep.
        with suppress(OSError):
            number = self._driver.number
            write_json(self._directory / f"{number}.json", _document(self._driver))


def drive(directory: Path) -> Claim | Driver:
    """Follow a sweep from now on, or who does so already.

    Raises RecordError as above, OSError where the directory cannot be written.
    """
    while True:
        before = highest_of(names(directory))
        if (living := living_driver(directory)) is not None:
            return living
        # Of several that find nobody there, one claims this number, and the others look again.
        number = before + 1
        driver = Driver(number=number, by=Process.this(), user=user_name(), unix_time=time.time())
        if create_json(directory / f"{number}.json", _document(driver)):
            return Claim(directory, driver)


def _document(driver: Driver) -> dict[str, object]:
    return {name: value for name, value in asdict(driver).items() if name != "number"}


def user_name() -> str:
    """Who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under an id without a name.
        return "somebody"
