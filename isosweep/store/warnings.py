"""A health rule that a run broke."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HealthWarning:
    """A rule that a run has broken at `step`. `value` is None where it is not finite."""

    step: int
    rule: str
    value: float | None
    threshold: float | None
    message: str
