"""Off-policy by a fixed lag: a trainer that learns from rollouts which an older policy made.

A generator that runs beside its trainer is a few updates behind it (arXiv 2510.13786 recommends
up to 8). This gives the same statistics in one process, exactly repeatable: every generation is
sampled by the policy of its step, with that policy's log-probabilities, and waits for `lag`
further generations before it is trained on. The first `lag` generations have nothing older to
wait for: they are trained on at once, and again in their turn; as many are never trained on at
the end. So every step still samples one generation and trains on one. What it does not give is
the time that is saved when both run at once.
"""

from collections import deque
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from isosweep.training.rollouts import Batch
from isosweep.training.trainer import CountedGRPOTrainer


class LaggedGRPOTrainer(CountedGRPOTrainer):
    """Trains on rollouts `recipe.rollout_lag` generations old; a checkpoint keeps what waits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: deque[Batch] = deque()

    def due_batch(self, fresh: Batch) -> Batch:
        """The batch whose turn it is; `fresh` itself until enough batches wait."""
        with self._ledger.timing("scoring"):
            self.remember_policy(fresh)
        self._waiting.append(fresh)
        enough = len(self._waiting) > self._spec.recipe.rollout_lag
        return self._waiting.popleft() if enough else fresh

    def save_beside(self, checkpoint: Path) -> None:
        """Write the waiting batches beside the checkpoint."""
        tensors = {
            f"{place}.{name}": value.contiguous()
            for place, batch in enumerate(self._waiting)
            for name, value in batch.items()
        }
        save_file(tensors, self._waiting_file(checkpoint))

    def restore_from(self, checkpoint: Path) -> None:
        """Read back what `save_beside` wrote."""
        batches: dict[int, Batch] = {}
        for key, value in load_file(self._waiting_file(checkpoint)).items():
            place, _, name = key.partition(".")
            batches.setdefault(int(place), {})[name] = value.to(self.own_device)
        self._waiting = deque(batches[place] for place in sorted(batches))

    def _waiting_file(self, checkpoint: Path) -> Path:
        return checkpoint / f"waiting-{self.process}.safetensors"
