"""A health rule that a run broke, or a checkpoint that it could not go on from; or no verdict."""

from dataclasses import dataclass

# In the place of a rule, where an attempt could not start from the checkpoint that it should have.
LOST_CHECKPOINT = "checkpoint"


@dataclass(frozen=True, kw_only=True)
class HealthWarning:
    """A rule that a run has broken at `step`. `value` is None where it is not finite."""

    step: int
    rule: str
    value: float | None
    threshold: float | None
    message: str

    @classmethod
    def without_value(cls, step: int, rule: str, message: str) -> "HealthWarning":
        """A warning of something that is not measured."""
        return cls(step=step, rule=rule, value=None, threshold=None, message=message)


def not_judged(window: int) -> str:
    """What is said of the health of a run that `HealthConfig.judges` nothing of."""
    return f"not judged: fewer than {window} steps"
