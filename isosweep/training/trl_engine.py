"""TRL's vLLM backend: what is sampled with, and which options its engine is made with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accelerate.utils import gather_object

from isosweep.training.changed import changed
from isosweep.training.trl_adapter import TRLTrainer


class Engine:
    """TRL's vLLM backend of a trainer that has one."""

    def __init__(self, trainer: TRLTrainer) -> None:
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
        """A completion of each of `rows`, in which every prompt comes `k` times."""
        sampling = {"temperature": temperature, "top_p": 1.0, "top_k": 0}
        asked = self._as_many_as_others(rows, k) if self._together else rows
        with changed(self._backend, **sampling, max_completion_length=limit):
            _, completions, _, _ = self._backend.generate(asked, images=None, num_generations=k)
        ids: list[list[int]] = completions
        return ids[: len(rows)]

    @property
    def _together(self) -> bool:
        """Whether processes hand their prompts to one engine, which TRL expects as many of each."""
        shared: bool = self._backend.tensor_parallel_size > 1
        return shared

    def _as_many_as_others(self, rows: list[list[int]], k: int) -> list[list[int]]:
        """`rows`, and copies of somebody's first, as many as the process with the most has."""
        shares = gather_object([(len(rows), rows[:k])])
        most: int
        filler: list[list[int]]
        most, filler = max(shares, key=lambda share: int(share[0]))
        return rows + filler * ((most - len(rows)) // k)


@contextmanager
def engine_options(options: dict[str, Any]) -> Iterator[None]:
    """A trainer made within the block gives `vllm.LLM` `options`, also in place of TRL's own."""
    from trl.generation import vllm_generation

    plain = vllm_generation.LLM
    with changed(vllm_generation, LLM=lambda **given: plain(**given | options)):
        yield
