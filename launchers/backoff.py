"""When a scheduler that refused is asked again."""

import random

# Slurm's controller is back after a restart in seconds, after a failover in a minute or two; one
# call in five minutes is nothing to it.
FIRST_S, LONGEST_S = 5.0, 300.0
# Drivers that were refused together do not come back together.
_JITTER = 0.2


class Backoff:
    """Pauses between tries: 5 s, doubling to 5 minutes, until one succeeds."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._until = 0.0

    def over(self, now: float) -> bool:
        """Whether it may be tried at `now`, in seconds of the caller's clock."""
        return now >= self._until

    def refused(self, now: float) -> float:
        """A try was refused; the seconds until the next."""
        self._pause = min(max(FIRST_S, 2 * self._pause), LONGEST_S)
        wait = self._pause * random.uniform(1 - _JITTER, 1 + _JITTER)
        self._until = now + wait
        return wait

    def accepted(self) -> None:
        """A try succeeded: the next pause is a short one again."""
        self._pause = 0.0
