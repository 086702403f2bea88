"""When a run is checkpointed, and what is kept of that."""

from typing import Literal

from isosweep.config.base import Settings
from isosweep.config.values import NonNegative, Positive, Share
from isosweep.errors import SettingError

Keep = Literal["all", "resumable", "weights", "none"]


class CheckpointConfig(Settings, group="checkpoint"):
    """When a run is saved, and what is kept (docs/interruption.md). It changes no result. A
    checkpoint is also written at a run's end and when it is stopped."""

    share: Share = 0.02
    """Share of a run's time that checkpoints may take: one that takes d seconds is followed by the
    next after d / `share`, within the two bounds below."""
    min_interval_s: NonNegative = 30.0
    """Least seconds between two checkpoints, and before the first. Shorter intervals gain little: a
    restart (model, engine, libraries) takes as long."""
    max_interval_s: Positive = 3600.0
    """Most seconds between two checkpoints, even if they then take more than `share`: what a kill
    can cost, besides the current step. (Young, CACM 17(9), 1974: the best interval is sqrt(2 d x
    time between kills); for d = 60 s and a kill a day, 54 minutes.)"""
    keep: Keep = "resumable"
    """What is left after a run's end: `all` checkpoints, the last one whole (`resumable`: a larger
    budget continues from it), its `weights`, or `none`. During a run, the last complete one and the
    one being written are kept, or `all`."""

    def _check(self) -> None:
        if self.min_interval_s > self.max_interval_s:
            rule = f"is more than checkpoint.max_interval_s={self.max_interval_s:g}"
            raise SettingError("checkpoint.min_interval_s", self.min_interval_s, rule)
