"""TRL's vLLM backend: what is sampled with, and which options its engine is made with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from isosweep.training.changed import changed
from isosweep.training.trainer import SweepTrainer


class Engine:
    """TRL's vLLM backend of a trainer that has one."""

    def __init__(self, trainer: SweepTrainer) -> None:
        self._trainer, self._backend = trainer, trainer.vllm_generation

    @property
    def llm(self) -> Any:
        """The `vllm.LLM` in this process."""
        return self._backend.llm

    def synchronise(self) -> None:
        """Send the weights once a step: TRL keeps the step of its last transfer."""
        trainer = self._trainer
        if trainer._last_loaded_step != trainer.state.global_step:
            self._backend.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step

    def around_synchronising(
        self, wrap: Callable[[Callable[[], None]], Callable[[], None]]
    ) -> None:
        """Put `wrap(...)` in the place of what sends the weights."""
        self._backend.sync_weights = wrap(self._backend.sync_weights)

    def sample(
        self, rows: list[list[int]], *, k: int, temperature: float, limit: int
    ) -> list[list[int]]:
        """A completion of each of `rows`, in which every prompt comes `k` times.

        Processes that share an engine are to ask for as many as each other: TRL expects that.
        """
        sampling = {"temperature": temperature, "top_p": 1.0, "top_k": 0}
        with changed(self._backend, **sampling, max_completion_length=limit):
            _, completions, _, _ = self._backend.generate(rows, images=None, num_generations=k)
        ids: list[list[int]] = completions
        return ids


@contextmanager
def engine_options(options: dict[str, Any]) -> Iterator[None]:
    """A trainer made within the block gives `vllm.LLM` `options`, also in place of TRL's own."""
    from trl.generation import vllm_generation

    plain = vllm_generation.LLM
    with changed(vllm_generation, LLM=lambda **given: plain(**given | options)):
        yield
