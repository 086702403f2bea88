"""What a tracker needs from where a view is kept: an MLflow store, or a project of W&B."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from isosweep.config.secrets import hidden
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths
from isosweep.tracking.points import MlflowStatus, Point

Params = Mapping[str, str | float | int]
# Longest text of a library that a line of the terminal carries.
_MAX_FAULT = 200


class StoreError(Exception):
    """A store that cannot be used: its name, and what is wrong with it, on one line."""


@dataclass(kw_only=True)
class StoredRun:
    """What a backend holds of one run, as far as it was read or written here.

    `key`: the backend's name for it. `sent`: the last step of each series of points that is there.
    `closed`: nothing can be added any more; to add, it is created anew.
    """

    key: str = ""
    status: str = ""
    end_time: float | None = None
    tags: dict[str, str] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    metrics: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    handle: Any = None


# By run id; the sweep's own run by None.
StoredRuns = dict[str | None, StoredRun]


@dataclass(kw_only=True)
class News:
    """What a stored run lacks. `status`: None if it is right; `complete`: no points will follow."""

    params: Params = field(default_factory=dict)
    points: Sequence[Point] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    status: MlflowStatus | None = None
    end_time: float | None = None
    complete: bool = False

    def __bool__(self) -> bool:
        return bool(self.params or self.points or self.tags or self.status)


class Backend(Protocol):
    """Where a view is kept. Methods raise whatever the backend's library raises."""

    name: str

    def open(self) -> StoredRuns:
        """Connect, make what is missing, and return the sweep's runs that are there."""

    def create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        """Make a run that began at `begun` (Unix time); None: the sweep's own run."""

    def write(self, run: StoredRun, news: News) -> None:
        """Add `news`, and note in `run.sent` which points it then has."""

    def describe(self, run: StoredRun, note: str, files: Sequence[tuple[Path, str]]) -> None:
        """Replace the description and the files of the sweep's own run; each file in a folder."""

    def close(self) -> None:
        """Write out everything: nothing follows for now."""

    def link(self) -> str | None:
        """Where a server shows the sweep; None without one, or before it was opened."""


def sweep_name(paths: SweepPaths, plan: Plan) -> str:
    """What distinguishes a sweep from others in one store."""
    return f"{paths.root.name}@{plan.plan_id}"


def fault(error: BaseException) -> str:
    """The first line of the error's root cause, without passwords."""
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    lines = str(error).strip().splitlines() or [""]
    return hidden(lines[0])[:_MAX_FAULT] or type(error).__name__
