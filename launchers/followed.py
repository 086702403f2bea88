"""A submission that a queue follows, and what the run's files say of it."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from isosweep.launchers.items import QueueItem
from isosweep.launchers.launcher import Observed, Refused
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunView, view_run
from isosweep.store.submissions import Outcome, SubmissionState

# Times of directories are coarse (a kernel tick, on some file systems a second or two): what
# changed again within such a time shows the same.
SETTLED_S = 2.0


class RunFiles:
    """What is known of a run; its files are read only where they may have changed.

    `away`: why they cannot be seen at present, where the view is what they were before.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._seen: tuple[int, int] | None = None
        self._since = 0.0
        self.view = RunView(state=None, submission=None)
        self.away: OSError | None = None
        self.read()

    def look(self, now: float) -> None:
        """Read again what may have changed; `now`: seconds of the caller's clock."""
        seen = (_changed(self._paths.attempts), _changed(self._paths.submissions))
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since > SETTLED_S and not self.away:
            return
        self.read()

    def read(self) -> RunView:
        """What is known now; what was known before, where a file system fails for a moment."""
        try:
            view = view_run(self._paths)
        except OSError as error:
            self.away = error
            return self.view
        known, lost = self.view, list[Path]()
        if known.submission is not None and view.submission is None:
            lost.append(known.submission.submission.path)
        if known.state is not None and view.state is None:
            lost.append(self._paths.attempts)
        away = next((path for path in lost if not path.exists()), None)
        self.away = None
        if away is not None:
            self.away = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(away))
        else:
            self.view = view
        return self.view


def _changed(directory: Path) -> int:
    """When the directory last changed, in ns; -1 where there is none.

    It is opened, since network file systems answer a `stat` from memory for up to a minute.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return -1
    try:
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)


@dataclass
class Followed:
    """A run whose newest submission is not over.

    `own`: this queue made it. `slots`: its places here. `refused`: the scheduler has not taken it
    yet. `gone`: how often in a row its job was not to be found. `running_since`: by this process's
    clock. `stuck`: why it was killed. `began_at`: compute that the run had when it was submitted.
    `pardoned`: it was to be cancelled before the queue began.
    """

    item: QueueItem
    files: RunFiles
    number: int
    own: bool
    slots: tuple[int, ...] = ()
    refused: Refused | None = None
    observed: Observed = field(default_factory=lambda: Observed(status="unknown"))
    gone: int = 0
    running_since: float | None = None
    stuck: str | None = None
    began_at: float = 0.0
    pardoned: bool = False

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.item.run.run_id

    @property
    def state(self) -> SubmissionState:
        """The submission. Raises LookupError where its files cannot be read."""
        if self.files.view.submission is None:
            raise LookupError(self.run_id)
        return self.files.view.submission

    def saw(self, observed: Observed, now: float) -> None:
        """What the scheduler, the process table or the heartbeat says of its job."""
        self.observed = observed
        if observed.status == "gone":
            self.gone += 1
        elif observed.status != "unknown":
            self.gone = 0
        if observed.status in ("pending", "gone"):
            self.running_since = None
        elif observed.status == "running" and self.running_since is None:
            self.running_since = now

    def spent(self) -> float:
        """Compute that the run has behind it, in its unit."""
        state = self.files.view.state
        return state.compute.spent(self.item.unit) if state else 0.0

    def failed_by(self, outcome: Outcome) -> bool:
        """Whether such an end was a failure, of which a run may have `max_retries`."""
        match outcome:
            case "failed" | "lost" | "stuck":
                # A job that no scheduler knows of, and no worker, was never one.
                return self.state.job is not None or self.files.view.current is not None
            case "finished" | "interrupted":
                # It was stopped, or did less than is wanted: no failure, if it came forward.
                return self.spent() <= self.began_at
            case "refused" | "cancelled":
                return False
            case _:
                assert_never(outcome)
