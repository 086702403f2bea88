"""Whether a run's files have changed, by a few calls of `stat` that read none of them."""

import os
from dataclasses import dataclass
from pathlib import Path

from isosweep.store.paths import RunPaths
from isosweep.store.records import log_files

Stat = tuple[int, int] | None


@dataclass
class RunWatch:
    """The files of one run as they were when it was last looked at.

    A file that is replaced or added changes its directory's time, and a line its file's size.
    """

    files: RunPaths

    def __post_init__(self) -> None:
        run, logs = self.files, self._logs()
        fixed = (run.attempts, run.submissions, *logs, run.base_rates)
        self._fixed = tuple(str(path) for path in fixed)
        self._watched: tuple[str, ...] = self._fixed
        self._seen: tuple[Stat, ...] = ()
        self._settled = False

    def changed(self) -> bool:
        """Whether the files are to be read: changed, or changed when it was last asked.

        Times are no finer than a few milliseconds: what is written just after a look may carry
        the time that was seen. Therefore files are read once more after every change.
        """
        seen = tuple(_stat(path) for path in self._watched)
        if seen == self._seen:
            again, self._settled = not self._settled, True
            return again
        self._seen, self._settled = seen, False
        logs = (str(path) for log in self._logs() for path in log_files(log).values())
        self._watched = (*self._fixed, *logs)
        return True

    def forget(self) -> None:
        """Have the files read at the next look, whatever they are."""
        self._seen = ()

    def _logs(self) -> tuple[Path, ...]:
        return (self.files.records, self.files.metrics, self.files.warnings)


def _stat(path: str) -> Stat:
    try:
        # A Path would take longer to make than the call itself.
        stat = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_size, stat.st_mtime_ns
