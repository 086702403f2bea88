"""What a view of a sweep needs from where it is kept: MLflow's store, or a project of W&B."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from isosweep.tracking.news import News
from isosweep.tracking.overview import Overview


@dataclass(kw_only=True)
class StoredRun:
    """What a backend holds of one of our runs, as far as it was read or written here.

    `key`: what the backend calls it; `sent`: the last step of each series of points that is there.
    `closed`: nothing can be added any more, so that it is made anew, with all that it has.
    """

    key: str
    status: str = ""
    end_time: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    metrics: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    handle: Any = None


# By run id; by None the sweep's own.
StoredRuns = dict[str | None, StoredRun]


class Backend(Protocol):
    """Where a view is kept. All but `used` and `emptied` are called within `used`, and raise as the
    backend's own library does."""

    name: str

    def used(self) -> AbstractContextManager[None]:
        """What goes wrong within is raised as StoreError, and printed by nobody else."""

    def open(self, known: StoredRuns | None) -> StoredRuns | None:
        """Make what is missing; what it holds of the sweep's runs, or None where that is `known`
        still."""

    def emptied(self, error: BaseException) -> bool:
        """Whether `error` says that what it had is not there: all is then sent again."""

    def create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        """A new run, that began at `begun` (Unix time); of None the sweep's own."""

    def write(self, run: StoredRun, news: News) -> None:
        """Add `news` and note in `run` what it then has."""

    def tags(self, overview: Overview, run_id: str | None, run: StoredRun) -> dict[str, str]:
        """What `overview` says of a run."""

    def put(self, run: StoredRun, overview: Overview, files: Sequence[tuple[Path, str]]) -> None:
        """Replace what the sweep's own run has of tables and files: those of `overview` and
        `files`, each in a folder."""

    def close(self) -> None:
        """Nothing is written for now."""

    def link(self) -> str | None:
        """Where a server shows the sweep; None without one, or before it was opened."""
