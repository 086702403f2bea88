"""A health rule that a run broke, or a checkpoint that it could not go on from."""

from dataclasses import dataclass

# In the place of a rule, where an attempt could not start from the checkpoint that it should have.
LOST_CHECKPOINT = "checkpoint"


@dataclass(frozen=True, kw_only=True)
class HealthWarning:
    """A rule that a run has broken at `step`. `value` is None where it is not finite,
    and where nothing is measured."""

    step: int
    rule: str
    value: float | None = None
    threshold: float | None = None
    message: str
