"""One command of a scheduler: bounded in time, given no input, and quoted on failure."""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

# A traceback's last lines say what went wrong; more does not fit a progress display.
_WORDS_LINES, _WORDS_CHARACTERS = 3, 400
# Seconds for a killed command's pipes to close.
_KILLED_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said. `status`: its exit status; None: it was killed after its time."""

    status: int | None
    output: str
    errors: str
    timeout_s: float

    @property
    def words(self) -> str:
        """Its last words, on one line: of its errors, or else of its output."""
        lines = [line.strip() for line in (self.errors or self.output).splitlines()]
        last = "; ".join([line for line in lines if line][-_WORDS_LINES:])
        shown = last[-_WORDS_CHARACTERS:]
        if self.status is None:
            return f"no answer in {self.timeout_s:g} s" + (f": {shown}" if shown else "")
        return shown or f"exit status {self.status}, without a word"


def ask(command: str, timeout_s: float) -> Answer:
    """Execute `command` by `sh`; it and all it has started are killed after `timeout_s`."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    status: int | None
    try:
        output, errors = process.communicate(timeout=timeout_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = None
        try:
            output, errors = process.communicate(timeout=_KILLED_S)
        except subprocess.TimeoutExpired:
            # Something that left the group holds the pipes; what was said is not worth waiting.
            output = errors = ""
    return Answer(status=status, output=output, errors=errors, timeout_s=timeout_s)
