"""How far a run is, by name, and how many runs are so far: numbers, and no files."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """How far a run is, with respect to the last milestone that a plan reads it at.

    QUEUED: it was submitted, or requeued, and no attempt of it runs. INTERRUPTED: it left a
    checkpoint, or its process ended without a word; it goes on from there.
    TO_EXTEND: it ended as it should, by a smaller budget or a rule that ends no run any more.
    STOPPED: the same, where a search that has ended asks no more of it; files of runs do not say
    so, and who looks at the search does.
    """

    NOT_BEGUN = "not begun"
    QUEUED = "queued"
    RUNNING = "running"
    TO_EXTEND = "to extend"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIVERGED = "diverged"
    DONE = "done"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to train."""
        return self in (Standing.DONE, Standing.DIVERGED)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many runs stand how: what every surface counts by.

    `collapsed`: of those done, the ones that the sweep's analysis found to have lost for good what
    they had gained.
    """

    counts: dict[Standing, int]
    collapsed: int = 0

    @classmethod
    def of(cls, runs: Mapping[str, Standing], collapsed: Collection[str] = ()) -> "Tally":
        """The tally of `runs`, by run id; `collapsed`: ids of runs."""
        counts = Counter(runs.values())
        fallen = sum(runs.get(run) is Standing.DONE for run in collapsed)
        return cls(counts={each: counts[each] for each in Standing}, collapsed=fallen)
