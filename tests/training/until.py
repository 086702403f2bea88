"""An observer that ends training after some steps, and keeps what it was shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isosweep.training.decision import Decision
from isosweep.training.ledger import Ledger


class Until:
    """Ends training after `steps`, books its seconds, and keeps every step's `metrics`."""

    def __init__(
        self, steps: int, ledger: Ledger, on_step: Callable[[int], Any] | None = None
    ) -> None:
        self.metrics: list[dict[str, float]] = []
        self._steps, self._ledger = steps, ledger
        self._on_step = on_step

    def begin(self, step: int) -> None:
        if self._on_step is not None:
            self._on_step(step)

    def step_ended(self, step: int, seconds: float) -> Decision:
        self._ledger.add_seconds(seconds)
        self.begin(step)
        return Decision.STOP if step == self._steps else Decision.GO_ON

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        self.metrics.append(values)
        return None

    def complete(self, checkpoint: Path, write: Callable[[], None]) -> None:
        raise AssertionError("nothing was to be saved")

    def saved(self, seconds: float) -> None:
        raise AssertionError("nothing was to be saved")
