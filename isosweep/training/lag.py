"""Off-policy by a fixed lag: generations wait in a queue before they are trained on.

A generator that runs beside its trainer is a few updates behind it (arXiv 2510.13786 recommends
up to 8). This gives the same statistics in one process, exactly repeatable: every generation is
sampled by the policy of its step, with that policy's log-probabilities, and waits for
`recipe.rollout_lag` further generations before it is trained on. The first generations have nothing
older to wait for: they are trained on at once, and again in their turn; as many are never trained
on at the end. So every step still samples one generation and trains on one. With
`generation.overlap=true` another process samples at the same time (generator.py), with the same
numbers.
"""

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from isosweep.files import JsonObject
from isosweep.training.generator import Generator
from isosweep.training.microbatches import Batch

if TYPE_CHECKING:
    from isosweep.training.trainer import SweepTrainer


class RolloutQueue:
    """Generations of a trainer, from their sampling to the updates that are made with them."""

    def __init__(self, trainer: "SweepTrainer") -> None:
        self._trainer, self._lag = trainer, trainer.spec.recipe.rollout_lag
        self._batches: deque[Batch] = deque()
        self._generator: Generator | None = None
        # Rollouts of a generation that this process trains on.
        self._count = 0

    def sample_by(self, generator: Generator) -> None:
        """Have another process sample from now on."""
        generator.connect(self._trainer)
        self._generator = generator

    def next_batch(self, count: int) -> Batch:
        """Sample a generation, `count` rollouts of it for this process; the one to train on."""
        if not self._lag:
            return self._trainer.fresh_batch(count)
        oldest = self._batches.popleft() if len(self._batches) == self._lag else None
        if self._generator is None:
            self._batches.append(self._trainer.fresh_batch(count))
        else:
            self._count = count
            self._begin(self._generator)
            if oldest is None:
                self._finish(self._generator)
        return self._batches[-1] if oldest is None else oldest

    def settle(self) -> None:
        """At the end of a step: add the generation that another process samples, and begin the
        next."""
        if self._generator is None:
            return
        if self._generator.sampling:
            self._finish(self._generator)
        # An engine answers the evaluation first, which there may be of this step.
        if self._trainer.spec.generation.name != "vllm":
            self._begin(self._generator)

    def _begin(self, generator: Generator) -> None:
        if not generator.sampling:
            generator.begin(self._count, sampling_state(self._trainer))

    def _finish(self, generator: Generator) -> None:
        with self._trainer.ledger.timing(None):
            batch, state, metrics = generator.finish()
        restore_sampling(self._trainer, state)
        for name, values in metrics.items():
            self._trainer.log_mean(name, *values)
        self._batches.append(batch)

    def save(self, checkpoint: Path) -> None:
        """Write this process's batches that wait into a checkpoint."""
        if self._lag:
            tensors = {
                f"{place}.{name}": value.contiguous()
                for place, batch in enumerate(self._batches)
                for name, value in batch.items()
            }
            save_file(tensors, self._file(checkpoint))

    def restore(self, checkpoint: Path) -> None:
        """Read back what `save` wrote."""
        if self._lag:
            batches: dict[int, Batch] = {}
            for key, value in load_file(self._file(checkpoint)).items():
                place, _, name = key.partition(".")
                batches.setdefault(int(place), {})[name] = value.to(self._trainer.own_device)
            self._batches = deque(batches[place] for place in sorted(batches))

    def _file(self, checkpoint: Path) -> Path:
        return checkpoint / f"waiting-{self._trainer.process}.safetensors"


def sampling_state(trainer: "SweepTrainer") -> JsonObject:
    """What a trainer's next generation follows from, besides the policy and the step."""
    return {"stream": trainer.stream.to_json(), "spent": trainer.ledger.of_sampling()}


def restore_sampling(trainer: "SweepTrainer", state: JsonObject) -> None:
    """Go on where `sampling_state` was called, here or in another process."""
    trainer.stream.restore(state["stream"])
    trainer.ledger.restore_sampling(state["spent"])
