"""What the driver of a sweep is asked to do by signals, and output that outlives its terminal."""

import errno
import os
import signal
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

# Exit status after Ctrl-C, as a shell gives it: 128 + SIGINT.
INTERRUPTED = 130
# Between two looks at what was asked: a sleep goes on after a signal.
_LOOK_S = 0.1


class Signals:
    """Notes SIGINT, SIGTERM and SIGHUP instead of being interrupted by them, at whatever moment.

    `asked`: how often somebody wants this to end; a terminal that goes away asks once.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._before: dict[int, Any] = {}
        self._at_once = False

    def __enter__(self) -> "Signals":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            silence()
            self.asked = max(self.asked, 1)
            return
        self.asked += 1
        if self._at_once:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float, unless: int = 0) -> None:
        """Sleep, but no longer than until it was asked more than `unless` times."""
        deadline = time.monotonic() + seconds
        while self.asked <= unless and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_LOOK_S, left))

    def interrupt_from_now_on(self) -> None:
        """Raise KeyboardInterrupt at the next signal: nothing is left that could be lost."""
        self._at_once = True

    def note_from_now_on(self) -> None:
        """Note signals again."""
        self._at_once = False


class Output:
    """Standard output that goes nowhere once nobody is there to read it, instead of failing.

    `stream`: None where it was closed from the start. What its encoding lacks is escaped.
    """

    def __init__(self, stream: TextIO | None) -> None:
        if stream is None:
            stream = Path(os.devnull).open("w")  # noqa: SIM115 (open as long as this process)
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream

    def write(self, text: str) -> int:
        """As a text file's."""
        self._unless_left(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """As a text file's."""
        self._unless_left(self._stream.flush)

    def _unless_left(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            # What a terminal answers that has hung up, and a pipe whose reader has left.
            if error.errno not in (errno.EIO, errno.EPIPE):
                raise
            output = os.fstat(1)
            _send_nowhere(lambda status: os.path.samestat(status, output))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def silence() -> None:
    """Send nowhere what is still written to a terminal; a file or a pipe is still there."""
    _send_nowhere(lambda status: stat.S_ISCHR(status.st_mode))


def _send_nowhere(chosen: Callable[[os.stat_result], bool]) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with suppress(OSError):
            if chosen(os.fstat(descriptor)):
                os.dup2(nothing, descriptor)
    os.close(nothing)
