"""How a GRPO run fits its device: micro-batch, vLLM's share of the memory, and concurrency.

Sizes are bytes (1 GB = 1e9) on one device; what they are made of is in `memory.py` and
`activations.py`, and for vLLM in `engine.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isosweep.config.recipe import RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.activations import TrainingBytes, generating_bytes, training_bytes
from isosweep.costs.engine import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    Bytes,
    Counts,
    Requests,
    context_tokens,
    engine_bytes,
    gathered_bytes,
)
from isosweep.costs.memory import state_bytes, weight_bytes
from isosweep.costs.padding import cached_at_most

# The most that vLLM should take of a device, its own or one that also trains.
MAX_VLLM_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class EngineFit:
    """What is planned of vLLM's engines, for each batch. Arrays: (batches,), 0 where none fits.

    `share`: its share of a device that also trains; `batched_tokens`: of a forward pass;
    `cache_bytes`: its cache on one device; `context_tokens`: of its longest sequence.
    """

    share: Bytes
    batched_tokens: Counts
    cache_bytes: Bytes
    context_tokens: int


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """How a run fits its device, for each batch. Arrays: (batches,).

    `micro_batch`: completions per forward pass, 0 where none fits. `needed`: bytes with the
    smallest possible micro-batch; `peak`: bytes with the one chosen. `concurrency`: rollouts that
    generation holds at once, on one device or in one vLLM engine (its `max_num_seqs`); `engine`:
    None for transformers.
    """

    micro_batch: Counts
    needed: Bytes
    peak: Bytes
    concurrency: Counts
    engine: EngineFit | None = None


@dataclass(frozen=True, kw_only=True)
class _Training:
    """A device that trains: what its state `left`, what `passes` add, its completions (`local`)."""

    recipe: RecipeConfig
    passes: TrainingBytes
    state: float
    left: float
    local: Counts

    def added(self, micro_batch: Requests) -> Bytes:
        """What the passes of a micro-batch add to the state."""
        return np.asarray(self.passes.fixed + micro_batch * self.passes.per_completion)

    @property
    def least(self) -> float:
        """What the passes of the smallest micro-batch add to the state."""
        return float(self.added(self.recipe.micro_batch or 1))

    def largest(self, room: Bytes) -> Counts:
        """The largest micro-batch whose passes take at most `room`, 0 if none: (batches,).

        It divides an update's share of the completions, within the recipe's own bound.
        """
        limit = np.floor((room - self.passes.fixed) / self.passes.per_completion)
        local, only = self.local // self.recipe.mini_batches, self.recipe.micro_batch
        best = np.zeros(local.shape, dtype=np.int64)
        for size in range(1, self.recipe.max_micro_batch + 1) if only is None else [only]:
            best = np.where((local % size == 0) & (size <= limit), size, best)
        return best


def fit_memory(
    config: SweepConfig, recipe: RecipeConfig, completions: Counts, context: int
) -> MemoryFit:
    """The largest micro-batch, vLLM's share and the concurrency for n x B = `completions`.

    `recipe`: that of the sweep, or with a micro-batch to try; `context`: tokens of the longest
    sequence that an engine is handed. A micro-batch divides the completions of one device.
    `transformers` generates all completions of a device at once and frees them before training. A
    generator beside the trainer has memory of its own, on a device of the same kind.
    """
    arch, hardware, lengths = config.model.architecture, config.run_hardware, config.task.lengths
    size = {"prompt": lengths.prompt, "completion": lengths.longest}
    state = state_bytes(arch, recipe, hardware).total
    train = _Training(
        recipe=recipe,
        passes=training_bytes(arch, recipe, hardware, **size),
        state=state,
        left=hardware.usable_bytes - state,
        local=completions // hardware.devices_per_run,
    )
    # What the device that samples holds throughout.
    beside = config.generation.overlap
    held = weight_bytes(arch, recipe, hardware) if beside else state
    if config.generation.name == "vllm":
        return _with_vllm(config, train, completions, held, context)
    rollouts = completions if beside else train.local
    generating = held + rollouts * generating_bytes(arch, recipe, hardware, **size)
    micro = train.largest(np.where(generating <= hardware.usable_bytes, train.left, -1.0))
    return MemoryFit(
        micro_batch=micro,
        needed=np.maximum(generating, state + train.least),
        peak=np.maximum(generating, state + train.added(micro)),
        concurrency=rollouts,
    )


def _with_vllm(
    config: SweepConfig, train: _Training, completions: Counts, held: float, context: int
) -> MemoryFit:
    """vLLM has room for as many as are expected to be as long at once, pages, and queues the others
    (`padding.cached_at_most`); what is free goes to its cache, up to all at their longest.

    It keeps weights and cache throughout, so that the largest micro-batch may take at most half of
    what the state leaves; asleep it gives them back, and only the state has to fit beside either.
    """
    generation, hardware, lengths = config.generation, config.run_hardware, config.task.lengths
    settings = config.model.architecture, train.recipe, hardware
    longest = lengths.prompt + lengths.longest
    expected = lengths.prompt + cached_at_most(lengths)
    engine = engine_bytes(*settings, generation, cached=expected, longest=longest, context=context)
    gathered = gathered_bytes(*settings)
    memory, shape = hardware.memory_gb * 1e9, completions.shape
    room = min(hardware.usable_bytes - held, MAX_VLLM_SHARE * memory)
    engines = generation.sampling_devices(hardware.devices_per_run) // generation.tensor_parallel
    most = np.minimum(-(-completions // engines), MAX_NUM_SEQS)
    away = generation.sleep or generation.overlap

    def resident(requests: Requests) -> Bytes:
        """What the engine keeps of the device that trains."""
        if generation.overlap:
            return np.zeros(shape)
        return engine.asleep(requests) if generation.sleep else engine.awake(requests)

    if away:
        requests = engine.requests_within(room, np.full(shape, gathered), most)
        if generation.sleep:
            # What stays of it while the policy is updated leaves room for one micro-batch.
            fits = np.floor((train.left - train.least - float(engine.asleep(0))) / engine.kept)
            requests = np.minimum(requests, np.maximum(fits, 0).astype(np.int64))
        micro = train.largest(train.left - resident(requests))
    else:
        free = train.left - float(engine.awake(1))
        if train.recipe.micro_batch is None:
            free = min(free, max(train.left / 2, train.least))
        micro = train.largest(np.full(shape, free))
        during = np.maximum(gathered, train.added(micro))
        requests = engine.requests_within(room, during, most)
    fits = (micro > 0) & (requests > 0)
    sampling = engine.awake(requests) + np.maximum(engine.working(requests), gathered)
    trained = resident(requests) + train.added(micro)
    unused = room - sampling if away else np.minimum(room - sampling, train.left - trained)
    more = np.minimum(engine.unexpected(requests), np.maximum(unused, 0.0))
    share = (engine.awake(requests) + more + engine.working(requests)) / memory
    one = float(engine.awake(1) + np.maximum(engine.working(1), gathered))
    tokens = np.maximum(requests, 1) * context_tokens(lengths.prompt, lengths.longest)
    trained = train.state + trained + (0.0 if away else more)
    return MemoryFit(
        micro_batch=np.where(fits, micro, 0),
        needed=np.maximum(held + one, train.state + train.least + resident(1)) + np.zeros(shape),
        peak=np.maximum(held + sampling + more, trained),
        concurrency=np.where(fits, requests, 0),
        engine=EngineFit(
            # Whole per cents, as it is shown and passed on: vLLM asks at its start whether so much
            # is free, and refuses a share of 0.
            share=np.where(fits, np.maximum(np.floor(100 * share), 1.0) / 100, 0.0),
            batched_tokens=np.where(fits, np.minimum(MAX_NUM_BATCHED_TOKENS, tokens), 0),
            cache_bytes=np.where(fits, np.ceil(engine.cached(requests) + more), 0.0),
            context_tokens=context,
        ),
    )


def quickest(fits: Sequence[MemoryFit], seconds: Sequence[NDArray[np.float64]]) -> MemoryFit:
    """The fit of the least seconds for each batch; of several micro-batches, smallest first.

    Of equals the largest; where none fits, what the smallest needs.
    """
    order = [
        np.where(fit.micro_batch > 0, took, np.inf) for fit, took in zip(fits, seconds, strict=True)
    ]
    best = len(fits) - 1 - np.argmin(order[::-1], axis=0)
    best = np.where(np.isfinite(np.min(order, axis=0)), best, 0)

    def chosen(of: Sequence[Any], name: str) -> NDArray[Any]:
        return np.choose(best, [getattr(each, name) for each in of])

    first, engines = fits[0], [fit.engine for fit in fits]
    return MemoryFit(
        micro_batch=chosen(fits, "micro_batch"),
        needed=first.needed,
        peak=chosen(fits, "peak"),
        concurrency=chosen(fits, "concurrency"),
        engine=first.engine
        and EngineFit(
            share=chosen(engines, "share"),
            batched_tokens=chosen(engines, "batched_tokens"),
            cache_bytes=chosen(engines, "cache_bytes"),
            context_tokens=first.engine.context_tokens,
        ),
    )
