"""How a GRPO run fits its device: micro-batch, vLLM's share of the memory, and concurrency.

Sizes are bytes (1 GB = 1e9) on one device; what they are made of is in `memory.py`, and for
vLLM in `engine.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import GenerationConfig, RecipeConfig
from isosweep.config.task import Lengths
from isosweep.costs.activations import TrainingBytes, generating_bytes, training_bytes
from isosweep.costs.engine import (
    MAX_NUM_SEQS,
    EngineBytes,
    Requests,
    batched_tokens,
    context_tokens,
    engine_bytes,
    gathered_bytes,
    requests_within,
)
from isosweep.costs.memory import state_bytes, weight_bytes
from isosweep.costs.padding import cached_at_most

Counts = NDArray[np.int64]
Bytes = NDArray[np.float64]

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
    None for transformers. `evaluating`: bytes with an evaluation's largest batch, by transformers.
    """

    micro_batch: Counts
    needed: Bytes
    peak: Bytes
    concurrency: Counts
    engine: EngineFit | None = None
    evaluating: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Completions that a device samples for an evaluation, by transformers `at_once`; `prompt`: the
    mean length, `completion`: the longest."""

    prompt: float
    completion: float
    at_once: int


def fit_memory(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    *,
    lengths: Lengths,
    completions: Counts,
    evaluated: Sequence[Sampled] = (),
) -> MemoryFit:
    """The largest micro-batch, vLLM's share and the concurrency for n x B = `completions`.

    `evaluated`: what a device samples for each evaluation of a record. A micro-batch divides the
    completions of one device; `recipe.micro_batch` fixes it. `transformers` generates all
    completions of a device at once and frees them before training. vLLM has room for as many as are
    expected to be as long at once, pages, and queues the others (`padding.cached_at_most`); what is
    free goes to its cache, up to all at their longest. It keeps weights and cache throughout, so
    that the largest micro-batch may take at most half of what the state leaves; asleep it gives
    them back, and only the state has to fit beside either. A generator beside the trainer has
    memory of its own, and is of the same devices.
    """
    prompt, completion = lengths.prompt, lengths.longest
    training = training_bytes(arch, recipe, hardware, prompt=prompt, completion=completion)
    train = _Training(
        room=hardware.usable_bytes,
        state=state_bytes(arch, recipe, hardware).total,
        passes=training,
        least=recipe.micro_batch or 1,
        local=completions // hardware.devices_per_run,
    )
    if generation.name == "transformers":
        rollouts = Sampled(prompt=prompt, completion=completion, at_once=1)
        sampled, *evaluating = (
            each.at_once
            * generating_bytes(
                arch, recipe, hardware, prompt=each.prompt, completion=each.completion
            )
            for each in (rollouts, *evaluated)
        )
        held, local = train.state, train.local
        if generation.overlap:
            held, local = weight_bytes(arch, recipe, hardware), completions
        largest = max(held, train.state) + max(evaluating, default=0.0)
        return _beside_transformers(train, recipe, held + local * sampled, local, largest)
    engines = generation.sampling_devices(hardware.devices_per_run) // generation.tensor_parallel
    context = context_tokens(prompt, completion)
    longest = max([context, *(context_tokens(e.prompt, e.completion) for e in evaluated)])
    demand = _Sampling(
        engine=engine_bytes(
            arch,
            recipe,
            hardware,
            generation,
            cached=prompt + cached_at_most(lengths),
            longest=prompt + completion,
            context=longest,
        ),
        gathered=gathered_bytes(arch, recipe, hardware),
        memory=hardware.memory_gb * 1e9,
        context=context,
        longest=longest,
        most=np.minimum(-(-completions // engines), MAX_NUM_SEQS),
    )
    if generation.overlap:
        # A generator scores with a copy of the policy, beside its engine's.
        return _beside_an_engine(train, demand, recipe, weight_bytes(arch, recipe, hardware))
    return _beside_vllm(train, demand, recipe, sleeps=generation.sleep)


@dataclass(frozen=True, kw_only=True)
class _Training:
    """Bytes of a device: what there is, what the state takes, and what forward and backward
    `passes` add; the `least` micro-batch, and the completions of the device, `local`: (batches,).
    """

    room: float
    state: float
    passes: TrainingBytes
    least: int
    local: Counts

    @property
    def left(self) -> float:
        """What the state leaves."""
        return self.room - self.state

    def added(self, micro_batch: Requests) -> Bytes:
        """What the passes of a micro-batch add to the state."""
        return np.asarray(self.passes.fixed + micro_batch * self.passes.per_completion)

    def micro_batch(self, recipe: RecipeConfig, room: Bytes) -> Counts:
        """The largest micro-batch whose passes take at most `room`: (batches,)."""
        within = np.floor((room - self.passes.fixed) / self.passes.per_completion)
        return _micro_batch(recipe, self.local, within)


@dataclass(frozen=True, kw_only=True)
class _Sampling:
    """vLLM's side of a device: bytes of one engine, of weights gathered for it, and of all
    memory; tokens of a rollout's context and of the `longest` that is evaluated, and the
    completions of one engine, `most`: (batches,)."""

    engine: EngineBytes
    gathered: float
    memory: float
    context: int
    longest: int
    most: Counts

    def engines_least(self) -> float:
        """What one request needs, with what is gathered before it."""
        return float(self.engine.awake(1) + np.maximum(self.engine.working(1), self.gathered))

    def requests(self, room: float, beside: Bytes) -> Counts:
        """How many an engine holds at once in `room`, with `beside` held between its steps."""
        return requests_within(self.engine, np.array(self.room(room)), beside, self.most)

    def room(self, room: float) -> float:
        """What an engine may take of it."""
        return min(room, MAX_VLLM_SHARE * self.memory)

    def more(self, requests: Counts, free: Bytes) -> Bytes:
        """What more of the cache goes into `free` bytes: lengths may be others than expected."""
        more: Bytes = np.minimum(self.engine.unexpected(requests), np.maximum(free, 0.0))
        return more

    def fit(
        self, requests: Counts, fits: NDArray[np.bool_], share: Bytes, more: Bytes
    ) -> EngineFit:
        """What is planned of an engine for `requests` at once, with so much `more` cache."""
        return EngineFit(
            share=np.where(fits, share, 0.0),
            batched_tokens=np.where(fits, batched_tokens(requests, self.context), 0),
            cache_bytes=np.where(fits, np.ceil(self.engine.cached(requests) + more), 0.0),
            context_tokens=self.longest,
        )


def _beside_transformers(
    train: _Training,
    recipe: RecipeConfig,
    generating: NDArray[np.floating[Any]],
    local: Counts,
    evaluating: float,
) -> MemoryFit:
    """`generating`: bytes of a device that samples its `local` completions, with the state or the
    weights that it holds; `evaluating`: the same with the largest batch of an evaluation."""
    micro = train.micro_batch(recipe, np.where(generating <= train.room, train.left, -1.0))
    return MemoryFit(
        micro_batch=micro,
        needed=np.maximum(generating, train.state + train.added(train.least)),
        peak=np.maximum(np.maximum(generating, evaluating), train.state + train.added(micro)),
        concurrency=local,
        evaluating=evaluating,
    )


def _beside_an_engine(
    train: _Training, demand: _Sampling, recipe: RecipeConfig, copied: float
) -> MemoryFit:
    """`copied`: bytes beside the engine, with which a generator scores."""
    local, room = train.local, train.room - copied
    requests = demand.requests(room, np.zeros(local.shape))
    fits = (requests > 0) & (demand.gathered <= train.left)
    micro = np.where(fits, train.micro_batch(recipe, np.full(local.shape, train.left)), 0)
    trained = np.maximum(train.added(train.least), demand.gathered)
    sampling = demand.engine.awake(requests) + demand.engine.working(requests)
    more = demand.more(requests, demand.room(room) - sampling)
    share = np.maximum(np.floor(100 * (sampling + more) / demand.memory), 1.0) / 100
    served = float(demand.engine.awake(1) + demand.engine.working(1)) + copied
    return MemoryFit(
        micro_batch=micro,
        needed=np.full(local.shape, max(train.state + trained, served)),
        peak=train.state + np.maximum(train.added(micro), demand.gathered),
        concurrency=np.where(micro > 0, requests, 0),
        engine=demand.fit(requests, micro > 0, share, more),
    )


def _beside_vllm(
    train: _Training, demand: _Sampling, recipe: RecipeConfig, *, sleeps: bool
) -> MemoryFit:
    engine, left, shape = demand.engine, train.left, train.local.shape
    smallest = float(train.added(train.least))
    gathered = np.full(shape, demand.gathered)
    if sleeps:
        requests = demand.requests(left, gathered)
        # What stays of it while the policy is updated leaves room for one micro-batch.
        beside = np.floor((left - smallest - float(engine.asleep(0))) / engine.kept)
        requests = np.minimum(requests, np.maximum(beside, 0).astype(np.int64))
        held = engine.asleep(requests)
        least = max(demand.engines_least(), float(engine.asleep(1)) + smallest)
        most = left - held
    else:
        one = float(engine.awake(1))
        least = max(demand.engines_least(), one + smallest)
        most = np.full(shape, left - one)
        if recipe.micro_batch is None:
            most = np.minimum(most, max(left / 2, smallest))
    micro = train.micro_batch(recipe, most)
    if not sleeps:
        requests = demand.requests(left, np.maximum(gathered, train.added(micro)))
        held = engine.awake(requests)
    fits = (micro > 0) & (requests > 0)
    sampling = engine.awake(requests) + np.maximum(engine.working(requests), gathered)
    trained = held + train.added(micro)
    free = demand.room(left) - sampling
    if not sleeps:
        free = np.minimum(free, left - trained)
    more = demand.more(requests, free)
    sampling = sampling + more
    if not sleeps:
        trained = trained + more
    share = (engine.awake(requests) + more + engine.working(requests)) / demand.memory
    return MemoryFit(
        micro_batch=np.where(fits, micro, 0),
        needed=np.full(shape, train.state + least),
        peak=train.state + np.maximum(sampling, trained),
        concurrency=np.where(fits, requests, 0),
        # Whole per cents, as it is shown and passed on: vLLM asks at its start whether so much is
        # free, and refuses a share of 0.
        engine=demand.fit(requests, fits, np.maximum(np.floor(100 * share), 1.0) / 100, more),
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

    def chosen(values: Sequence[NDArray[np.generic]]) -> NDArray[Any]:
        return np.choose(best, values)

    engines = [fit.engine for fit in fits if fit.engine is not None]
    first = fits[0]
    return MemoryFit(
        micro_batch=chosen([fit.micro_batch for fit in fits]),
        needed=first.needed,
        peak=chosen([fit.peak for fit in fits]),
        concurrency=chosen([fit.concurrency for fit in fits]),
        engine=EngineFit(
            share=chosen([engine.share for engine in engines]),
            batched_tokens=chosen([engine.batched_tokens for engine in engines]),
            cache_bytes=chosen([engine.cache_bytes for engine in engines]),
            context_tokens=engines[0].context_tokens,
        )
        if engines
        else None,
        evaluating=first.evaluating,
    )


def _micro_batch(recipe: RecipeConfig, local: Counts, limit: NDArray[np.float64]) -> Counts:
    """The largest divisor of an update's share of `local` within `limit` and the recipe's own
    bound; 0 if none."""
    local = local // recipe.mini_batches
    if recipe.micro_batch is not None:
        fits = (local % recipe.micro_batch == 0) & (recipe.micro_batch <= limit)
        return np.where(fits, recipe.micro_batch, 0)
    best = np.zeros(local.shape, dtype=np.int64)
    for size in range(1, recipe.max_micro_batch + 1):
        best = np.where((local % size == 0) & (size <= limit), size, best)
    return best
