"""Wall time of GRPO steps on given hardware, from FLOPs, bytes moved and fixed overheads.

Prefill, log-probabilities and training run at a share of the device's peak FLOP/s, the last two
with the padding that `padding.py` expects. Decoding one position of all concurrent rollouts takes
the roofline's larger time: reading the weights (of a mixture of experts those that the batch is
expected to touch) and the cached keys and values, or the FLOPs. The devices of a tensor-parallel
engine share both, and exchange activations at every decoded position. Not modelled: that exchange
in prefill, stragglers among completion lengths in generation, preemption by a full KV cache, time
lost to requeues. On top comes what is spent beside the device: once a generation, an update, a
batch that is sampled, a position, an answer (`hardware.*_overhead_s`). Arrays of batches broadcast;
all results are seconds.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isosweep.config.architecture import Architecture
from isosweep.config.generation import GenerationConfig
from isosweep.config.hardware import HardwareConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.config.task import Lengths
from isosweep.costs.engine import cache_bytes_per_token
from isosweep.costs.flops import Count, Passes, decode_flops, rollout_flops
from isosweep.costs.host import host_traffic
from isosweep.costs.memory import PRECISION_BYTES, state_bytes

Seconds = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """What some rollouts take to be sampled on one device, or engine. Arrays: (batches,).

    `device`: seconds of prefill and decoding at the whole roofline; `positions`: decoded one after
    the other; `batches`: sampled one after the other.
    """

    device: Seconds
    positions: Seconds
    batches: float

    def seconds(self, hardware: HardwareConfig) -> Seconds:
        """Seconds at the hardware's utilization, with its overheads."""
        beside = (
            self.positions * hardware.token_overhead_s
            + self.batches * hardware.generation_overhead_s
        )
        return self.device / hardware.generation_utilization + beside


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """Seconds of one generation and the updates made with it, by cause. Arrays: (batches,).

    `training` holds log-probability passes, forward, backward, recomputation and padding, at the
    hardware's utilization; `generation` is `Sampling.seconds`; `update` is moving the optimiser's
    states, gradient exchange and weight synchronisation; `overhead` what is spent beside the
    device: a generation, an update and an answer.
    """

    training: Seconds
    generation: Seconds
    update: Seconds
    overhead: Seconds

    @property
    def total(self) -> Seconds:
        """All causes together."""
        return self.training + self.generation + self.update + self.overhead


def step_seconds(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    passes: Passes,
    lengths: Lengths,
    *,
    completions: NDArray[np.int64],
    concurrency: NDArray[np.int64],
    learner: NDArray[np.float64],
) -> StepSeconds:
    """Seconds of one step with n x B = `completions`.

    `concurrency`: rollouts that each device decodes at once, or each engine of vLLM; `learner`:
    FLOPs that a device computes in scoring and training, padding and recomputation included
    (`padding.learner_flops`): (batches,).
    """
    local = completions / hardware.devices_per_run
    engines = generation.sampling_devices(hardware.devices_per_run) / generation.tensor_parallel
    flops = rollout_flops(arch, lengths.prompt, lengths.completion, passes)
    training = learner / (hardware.peak_flops * hardware.training_utilization)

    sampled = sampling(
        arch,
        hardware,
        decoded(lengths, generation),
        rollouts=completions / engines,
        concurrency=concurrency,
        prefill_flops=flops.prefill / passes.draws,
        tensor_parallel=generation.tensor_parallel,
    )
    return StepSeconds(
        training=training,
        generation=sampled.seconds(hardware) * passes.draws,
        update=np.full(local.shape, _update_seconds(arch, recipe, hardware, generation)),
        overhead=hardware.step_overhead_s
        + hardware.update_overhead_s * recipe.updates_per_generation
        + hardware.answer_overhead_s * local * passes.draws,
    )


def decoded(lengths: Lengths, generation: GenerationConfig) -> Lengths:
    """Of rollouts, with the length to which each is decoded as the longest.

    `transformers` goes on until the last rollout has ended, at the longest completion allowed; vLLM
    refills as rollouts end: the mean length.
    """
    if generation.name == "transformers":
        return lengths
    return replace(lengths, longest=lengths.completion)


def sampling(
    arch: Architecture,
    hardware: HardwareConfig,
    lengths: Lengths,
    *,
    rollouts: Seconds,
    concurrency: NDArray[np.int64],
    prefill_flops: Count,
    tensor_parallel: int = 1,
    batches: float = 1.0,
) -> Sampling:
    """What sampling `rollouts` takes on one device, `concurrency` at once, in so many `batches`.

    Each is decoded to `lengths.longest` (`decoded`). `tensor_parallel` devices do it together where
    there are more.
    """
    prompt, completion = lengths.prompt, lengths.completion
    together = np.maximum(np.minimum(concurrency, rollouts), 1)
    positions = np.maximum(rollouts / together, 1.0) * max(lengths.longest - 1, 0.0)
    flops = together * float(decode_flops(arch, prompt, completion)) / max(completion - 1, 1)
    cached = prompt + completion / 2
    moved = _bytes_per_position(arch, hardware, together, cached, tensor_parallel)
    peak = hardware.peak_flops * tensor_parallel
    each = np.maximum(moved / hardware.memory_bandwidth, flops / peak)
    if tensor_parallel > 1 and hardware.interconnect_bandwidth is not None:
        # Two ring all-reduces of the residual stream in every layer (arXiv 1909.08053, section 3).
        width = 2 * arch.num_layers * arch.hidden_size * PRECISION_BYTES[hardware.dtype]
        volume = together * width * 2 * (tensor_parallel - 1) / tensor_parallel
        each = each + volume / hardware.interconnect_bandwidth
    prefill = rollouts * prefill_flops / peak
    return Sampling(device=prefill + positions * each, positions=positions, batches=batches)


def _bytes_per_position(
    arch: Architecture, hardware: HardwareConfig, together: Seconds, cached: float, devices: int
) -> Seconds:
    """Bytes that each of an engine's `devices` reads to decode one position.

    Of `together` rollouts, with `cached` tokens each.
    """
    size = PRECISION_BYTES[hardware.dtype]
    weights = arch.active_parameters * np.ones_like(together, dtype=float)
    if arch.num_experts:
        # Each token takes k of E experts: the share that none of them takes is (1 - k/E)^tokens.
        share = arch.num_experts_per_token / arch.num_experts
        touched = 1 - (1 - share) ** together
        experts = arch.layer_weights - arch.active_layer_weights
        # At one token the active ones are read, at many tokens all of them.
        weights = weights + experts * (touched - share) / (1 - share)
    cache = cache_bytes_per_token(arch, hardware.dtype, devices)
    return weights * size / devices + together * cached * cache


def _update_seconds(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    generation: GenerationConfig,
) -> float:
    """Seconds of the updates of one step: states read and written, exchange, weight sync.

    The host's own arithmetic on offloaded states is not modelled.
    """
    state = state_bytes(arch, recipe, hardware)
    # AdamW reads weights, gradients and both states and writes all but the gradients.
    moved = 2 * (state.weights + state.optimizer) + state.gradients
    seconds = recipe.updates_per_generation * moved / hardware.memory_bandwidth
    devices = hardware.devices_per_run
    if hardware.states_on_host and hardware.host_bandwidth is not None:
        share = host_traffic(arch, recipe, hardware) / (
            1 if hardware.sharding == "ddp" else devices
        )
        seconds += recipe.updates_per_generation * share / hardware.host_bandwidth
    if devices > 1 and hardware.interconnect_bandwidth is not None:
        # A ring all-reduce moves 2 (d - 1) / d of the gradients; ZeRO-3 gathers the weights
        # twice besides (arXiv 1910.02054, section 7).
        gradients = arch.parameters * PRECISION_BYTES[hardware.dtype]
        moves = 3 if hardware.sharding in ("zero3", "fsdp") else 2
        volume = moves * gradients * (devices - 1) / devices
        seconds += recipe.updates_per_generation * volume / hardware.interconnect_bandwidth
    if generation.name == "vllm":
        seconds += 2 * arch.parameters * PRECISION_BYTES[hardware.dtype] / hardware.memory_bandwidth
    return seconds
