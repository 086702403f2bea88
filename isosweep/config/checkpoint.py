"""When a run is checkpointed, and what is kept of that."""

from typing import Literal

from isosweep.config.settings import settings
from isosweep.config.values import NonNegative, Positive, Share
from isosweep.errors import SettingError

Keep = Literal["all", "resumable", "weights", "none"]


@settings("checkpoint")
class CheckpointConfig:
    """When a run is checkpointed, and what is kept; no number of a run depends on it.

    A checkpoint is also written at the end of a run and when it is asked to stop.
    """

    share: Share = 0.02
    """Share of a run's time that writing checkpoints may take: one that takes d seconds is
    followed by the next after d / `share`, within the two bounds below."""
    min_interval_s: NonNegative = 30.0
    """Seconds between two checkpoints, at least, and before the first: to lose less than a
    restart takes (model, engine and libraries are loaded again) gains nothing."""
    max_interval_s: Positive = 3600.0
    """Seconds between two checkpoints, at most: what a kill can cost, besides the step under way,
    even where that takes more than `share`. Of a run of hours it is a share that a kill a day
    leaves small (Young, CACM 17(9), 1974: the best interval is sqrt(2 d x time between kills),
    for d = 60 s and a day 54 minutes)."""
    background: bool = True
    """Copy the state to host memory and write it while training goes on; false writes first.
    Without effect on sharded weights and optimisers, which are always written first."""
    keep: Keep = "resumable"
    """What is left after a run's end: `all` that were written, the last one whole (`resumable`:
    a larger budget goes on from it), its `weights` alone, or `none`. While a run lasts the last
    complete one is there and the one being written, or `all`."""

    def __post_init__(self) -> None:
        if self.min_interval_s > self.max_interval_s:
            rule = f"is more than checkpoint.max_interval_s={self.max_interval_s:g}"
            raise SettingError("checkpoint.min_interval_s", self.min_interval_s, rule)
