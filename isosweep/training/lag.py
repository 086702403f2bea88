"""Off-policy by a fixed lag: rollouts wait, and are trained on when the policy is another.

A generator that runs beside its trainer is a few updates behind it (arXiv 2510.13786 recommends
up to 8). This gives the same statistics in one process, exactly repeatable: every generation is
sampled by the policy of its step, with that policy's log-probabilities, and waits for `lag`
further generations before it is trained on. The first `lag` generations have nothing older to
wait for: they are trained on at once, and again in their turn; as many are never trained on at
the end. So every step still samples one generation and trains on one. With
`generation.overlap=true` both run at once (isosweep/training/beside.py), with the same numbers.
"""

from collections import deque
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from isosweep.training.microbatches import Batch


class Waiting:
    """Generations that are trained on `lag` generations after they were sampled."""

    def __init__(self, lag: int) -> None:
        self._lag = lag
        self._batches: deque[Batch] = deque()

    def oldest(self) -> Batch | None:
        """The batch whose turn it is, which waits no longer; None until enough wait."""
        return self._batches.popleft() if len(self._batches) == self._lag else None

    @property
    def newest(self) -> Batch:
        """The batch that was added last."""
        return self._batches[-1]

    def add(self, fresh: Batch) -> None:
        """Have a batch wait that was just sampled."""
        self._batches.append(fresh)

    def save(self, checkpoint: Path, process: int) -> None:
        """Write the waiting batches of a process into a checkpoint."""
        if not self._lag:
            return
        tensors = {
            f"{place}.{name}": value.contiguous()
            for place, batch in enumerate(self._batches)
            for name, value in batch.items()
        }
        save_file(tensors, checkpoint / f"waiting-{process}.safetensors")

    def restore(self, checkpoint: Path, process: int, device: Any) -> None:
        """Read back, to `device`, what `save` wrote."""
        if not self._lag:
            return
        batches: dict[int, Batch] = {}
        for key, value in load_file(checkpoint / f"waiting-{process}.safetensors").items():
            place, _, name = key.partition(".")
            batches.setdefault(int(place), {})[name] = value.to(device)
        self._batches = deque(batches[place] for place in sorted(batches))
