"""What comes of a step: whether it is checkpointed, and whether it is the last."""

from enum import Enum


class Decision(Enum):
    """Members are (save, stop)."""

    GO_ON = (False, False)
    SAVE = (True, False)
    SAVE_AND_STOP = (True, True)
    STOP = (False, True)

    @classmethod
    def of(cls, *, save: bool, stop: bool) -> "Decision":
        """The decision that says both."""
        return cls((save, stop))

    @property
    def save(self) -> bool:
        """Whether a checkpoint is written after this step."""
        return self.value[0]

    @property
    def stop(self) -> bool:
        """Whether training ends after this step."""
        return self.value[1]
