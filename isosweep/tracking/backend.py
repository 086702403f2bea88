"""What a tracker sends, and what it needs from a store: one of MLflow, or a project of W&B."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

FinalStatus = Literal["FINISHED", "FAILED", "KILLED"]
RunStatus = Literal["SCHEDULED", "RUNNING"] | FinalStatus
Params = Mapping[str, str | float | int]


@dataclass(frozen=True)
class Point:
    """Metrics of one step. A run's points of one `series` come by ascending step; those of none
    are sent when a value changes."""

    step: int
    unix_time: float
    values: dict[str, float]
    series: str = ""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a view is to show of a run, or the part of that which a store lacks.

    `begun`: Unix time, None before the first record; `status`: None where it is to stay;
    `complete`: no points will follow.
    """

    params: Params = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()
    begun: float | None = None
    status: RunStatus | None = None
    end_time: float | None = None
    complete: bool = False

    def __bool__(self) -> bool:
        return bool(self.params or self.tags or self.points or self.status)


@dataclass(kw_only=True)
class StoredRun:
    """What a store has of a run. `key`: its id there; `sent`: the last step of each series;
    `closed`: nothing can be added, unless it is created again."""

    key: str = ""
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    status: str = ""
    end_time: float | None = None
    closed: bool = False
    handle: Any = None

    def lacks(self, content: Content) -> Content:
        """Return the part of `content` that is not stored. An empty tag only replaces another."""
        points = []
        for point in content.points:
            if not point.series:
                new = {k: v for k, v in point.values.items() if self.metrics.get(k) != v}
                points += [replace(point, values=new)] if new else []
            elif point.step > self.sent.get(point.series, -1):
                points.append(point)
        ended = content.end_time is not None and content.status not in ("SCHEDULED", "RUNNING")
        same = self.status == content.status and not (ended and self.end_time != content.end_time)
        return replace(
            content,
            params={k: v for k, v in content.params.items() if k not in self.params},
            tags={k: v for k, v in content.tags.items() if self.tags.get(k, "") != v},
            points=points,
            status=None if same else content.status,
        )

    def add(self, content: Content) -> None:
        """Note that `content` is stored now; `Backend.write` notes which points are."""
        self.params.update(content.params)
        self.tags.update(content.tags)
        for point in content.points:
            self.metrics.update(point.values)
        if content.status is not None:
            self.status, self.end_time = content.status, content.end_time


# By run id; the sweep's own run by None.
StoredRuns = dict[str | None, StoredRun]


class Backend(Protocol):
    """Where a view is stored. Methods raise whatever the store's library raises.

    `name`: for people; `link`: where a server shows the sweep, None without one, or before `open`.
    """

    name: str
    link: str | None

    def open(self) -> StoredRuns:
        """Connect, make what is missing, and return the sweep's runs that are there."""

    def create(self, run_id: str | None, name: str, begun: float | None) -> StoredRun:
        """Make a run that began at `begun` (Unix time); None: the sweep's own run."""

    def write(self, run: StoredRun, news: Content) -> None:
        """Add `news` to the run, and note in `run.sent` which points it then has."""

    def describe(self, run: StoredRun, note: str, files: Sequence[tuple[Path, str]]) -> None:
        """Replace the description and the files of the sweep's own run; each file in a folder."""

    def close(self) -> None:
        """Write out everything: nothing follows for now."""


def sweep_name(paths: SweepPaths, plan: Plan) -> str:
    """Return what distinguishes a sweep from others in one store."""
    return f"{paths.root.name}@{plan.plan_id}"
