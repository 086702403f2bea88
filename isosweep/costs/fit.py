"""How a GRPO run fits its device: micro-batch, vLLM's share of the memory, and concurrency.

Sizes are bytes (1 GB = 1e9) on one device; what they are made of is in `memory.py`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isosweep.config.architecture import Architecture
from isosweep.config.generation import GenerationConfig
from isosweep.config.hardware import HardwareConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.costs.activations import generating_bytes, training_bytes
from isosweep.costs.memory import PRECISION_BYTES, kv_bytes_per_token, state_bytes

Counts = NDArray[np.int64]

# What vLLM needs beside weights and KV cache: captured graphs and the largest forward pass.
_VLLM_WORKSPACE = 2e9
# vLLM's own default, and the most that it should take in a process that also trains.
_MAX_VLLM_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """How a run fits its device, for each batch. Arrays: (batches,).

    `micro_batch`: completions per forward pass, 0 where none fits. `needed`: bytes with the
    smallest possible micro-batch; `peak`: bytes with the one chosen. `vllm_share`: vLLM's memory
    fraction, 0 for transformers. `concurrency`: rollouts that generation holds at once.
    """

    micro_batch: Counts
    needed: NDArray[np.float64]
    peak: NDArray[np.float64]
    vllm_share: NDArray[np.float64]
    concurrency: Counts


def fit_memory(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    *,
    prompt: float,
    completion: float,
    completions: Counts,
    evaluated: int = 0,
) -> MemoryFit:
    """The largest micro-batch, vLLM's share and the concurrency for n x B = `completions`.

    `prompt`, `completion`: the longest lengths; `evaluated`: completions that a device samples at
    once for an evaluation. A micro-batch divides the completions of one
    device; `recipe.micro_batch` fixes it. `transformers` generates all completions of a device at
    once and frees them before training; vLLM keeps its share throughout and queues what does not
    fit, so training may take at most half of what the state leaves. A vLLM server has memory of
    its own.
    """
    training = training_bytes(arch, recipe, hardware, prompt=prompt, completion=completion)
    sampled = generating_bytes(arch, recipe, hardware, prompt=prompt, completion=completion)
    demand = _Demand(
        room=hardware.memory_gb * 1e9 * (1 - hardware.memory_reserve),
        state=state_bytes(arch, recipe, hardware).total + training.fixed,
        per_completion=training.per_completion,
        sampled=sampled,
        evaluated=evaluated,
        cache=(prompt + completion) * kv_bytes_per_token(arch, hardware.dtype),
        local=completions // hardware.devices_per_run,
    )
    if generation.name == "transformers":
        return _beside_transformers(demand, recipe)
    if generation.mode == "server":
        return _beside_a_server(demand, recipe)
    return _beside_vllm(demand, arch, recipe, hardware)


@dataclass(frozen=True, kw_only=True)
class _Demand:
    """Bytes of a device: what there is, what the state takes, what a completion takes in training
    and in vLLM's cache, what one `sampled` by transformers does; completions `evaluated` at once;
    and its completions, `local`: (batches,)."""

    room: float
    state: float
    per_completion: float
    sampled: float
    evaluated: int
    cache: float
    local: Counts


def _beside_transformers(demand: _Demand, recipe: RecipeConfig) -> MemoryFit:
    room, state, local = demand.room, demand.state, demand.local
    generating = np.maximum(local, demand.evaluated) * demand.sampled
    limit = np.where(state + generating <= room, room - state, -1.0)
    micro = _micro_batch(recipe, local, np.floor(limit / demand.per_completion))
    least = (recipe.micro_batch or 1) * demand.per_completion
    return MemoryFit(
        micro_batch=micro,
        needed=state + np.maximum(generating, least),
        peak=state + np.maximum(generating, micro * demand.per_completion),
        vllm_share=np.zeros(local.shape),
        concurrency=local,
    )


def _beside_a_server(demand: _Demand, recipe: RecipeConfig) -> MemoryFit:
    state, local = demand.state, demand.local
    most = np.floor((demand.room - state) / demand.per_completion)
    micro = _micro_batch(recipe, local, np.full(local.shape, most))
    least = (recipe.micro_batch or 1) * demand.per_completion
    return MemoryFit(
        micro_batch=micro,
        needed=np.full(local.shape, state + least),
        peak=state + micro.astype(np.float64) * demand.per_completion,
        vllm_share=np.zeros(local.shape),
        concurrency=local,
    )


def _beside_vllm(
    demand: _Demand, arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig
) -> MemoryFit:
    state, local, cache = demand.state, demand.local, demand.cache
    per_completion, memory = demand.per_completion, hardware.memory_gb * 1e9
    least = arch.parameters * PRECISION_BYTES[hardware.dtype] + _VLLM_WORKSPACE + cache
    left = demand.room - state
    most = left - least
    if recipe.micro_batch is None:
        most = min(most, max(left / 2, per_completion))
    micro = _micro_batch(recipe, local, np.full(local.shape, np.floor(most / per_completion)))
    fits = micro > 0
    useful = least + (local - 1) * cache
    share = np.minimum(np.minimum(left - micro * per_completion, useful), _MAX_VLLM_SHARE * memory)
    concurrency = np.minimum(local, 1 + np.floor((share - least) / cache).astype(np.int64))
    # Rounded down to whole per cents, as it is shown and passed on.
    fraction = np.floor(100 * share / memory) / 100
    smallest = state + least + (recipe.micro_batch or 1) * per_completion
    return MemoryFit(
        micro_batch=np.where(fits, micro, 0),
        needed=np.full(local.shape, smallest),
        peak=state + micro * per_completion + share,
        vllm_share=np.where(fits, fraction, 0.0),
        concurrency=np.where(fits, concurrency, 0),
    )


def _micro_batch(recipe: RecipeConfig, local: Counts, limit: NDArray[np.float64]) -> Counts:
    """The largest divisor of `local` within `limit` and the recipe's own bound; 0 if none."""
    if recipe.micro_batch is not None:
        fits = (local % recipe.micro_batch == 0) & (recipe.micro_batch <= limit)
        return np.where(fits, recipe.micro_batch, 0)
    best = np.zeros(local.shape, dtype=np.int64)
    for size in range(1, recipe.max_micro_batch + 1):
        best = np.where((local % size == 0) & (size <= limit), size, best)
    return best
