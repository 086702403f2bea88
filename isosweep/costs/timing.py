"""Wall time of GRPO steps on given hardware, from FLOPs, bytes moved and fixed overheads.

Prefill, log-probabilities and training run at a share of the device's peak FLOP/s, the last two
with the padding that `padding.py` expects, and with the launches of every pass over a micro-batch.
Decoding goes on for as many positions as the longest of a batch is expected to have, and takes
the roofline's larger time: reading the weights at every position (of a mixture of experts those
that the batch is expected to touch) and the cached keys and values, or the FLOPs. The devices of a
tensor-parallel engine share both, and exchange activations at every decoded position. What devices
exchange in training goes over the slower of a node's links and its network (`_ring_seconds`). Not
modelled: that exchange in prefill, its overlap with computation, latency, several jobs on one
network, preemption by a full KV cache, time lost to requeues. On top comes what is spent beside the
device: once a generation, an update, a batch that is sampled, a position, an answer. What is
reached of peak and roofline is in `efficiency.py`. Arrays of batches broadcast; all results are
seconds.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture, adapter_weights
from isosweep.config.recipe import GenerationConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.efficiency import Efficiency
from isosweep.costs.engine import cache_bytes_per_token
from isosweep.costs.fit import MemoryFit
from isosweep.costs.flops import Count, Passes, decode_flops, rollout_flops
from isosweep.costs.memory import PRECISION_BYTES, state_bytes
from isosweep.costs.padding import longest_of, mean_cached

# PCIe Gen5 x16, one way, in bytes per second.
_HOST_BANDWIDTH = 6.4e10

Seconds = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """What some rollouts take to be sampled on one device, or engine. Arrays: (batches,).

    `device`: seconds of prefill and decoding at the whole roofline; `positions`: decoded one after
    the other.
    """

    device: Seconds
    positions: Seconds

    def seconds(self, reached: Efficiency) -> Seconds:
        """Seconds at what is reached of the roofline, with overheads."""
        beside = self.positions * reached.token_overhead_s
        return self.device / reached.generation_utilization + beside


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """Seconds of one generation and the updates made with it, by cause. Arrays: (batches,).

    `training` holds log-probability passes, forward, backward, recomputation and padding, at the
    share of the peak that is reached; `generation` is `Sampling.seconds`; `update` is moving
    the optimiser's states, gathering weights, gradient exchange and weight synchronisation;
    `overhead` what is spent beside the device: a generation, a pass and an answer.

    A generator beside the trainer also judges and scores what it samples, which is in `beside` and
    not in the others, and is sent the weights, while both wait: `transfer`.
    """

    training: Seconds
    generation: Seconds
    update: Seconds
    overhead: Seconds
    beside: Seconds | None = None
    transfer: float = 0.0

    def times(self, generation: float, training: float) -> "StepSeconds":
        """The step whose sampling, and all else, take so many times as long."""
        return replace(
            self,
            generation=self.generation * generation,
            training=self.training * training,
            update=self.update * training,
            overhead=self.overhead * training,
        )

    @property
    def learning(self) -> Seconds:
        """All that the trainer does but sample."""
        return self.training + self.update + self.overhead

    @property
    def total(self) -> Seconds:
        """From one generation to the next."""
        if self.beside is None:
            return self.generation + self.learning
        return np.maximum(self.generation + self.beside, self.learning) + self.transfer


def step_seconds(
    config: SweepConfig,
    passes: Passes,
    completions: NDArray[np.int64],
    fit: MemoryFit,
    learner: NDArray[np.float64],
    reached: Efficiency,
) -> StepSeconds:
    """Seconds of one step with n x B = `completions`.

    `fit`: micro-batches, and rollouts decoded at once; `learner`: FLOPs that a device computes in
    training, padding and recomputation included (`padding.learner_flops`), (batches,) each, with
    those of scoring before them: (2, batches); `reached`: `efficiency` of the run.
    """
    arch, hardware, lengths = config.model.architecture, config.run_hardware, config.task.lengths
    samplers = config.generation.sampling_devices(hardware.devices_per_run)
    engines = samplers / config.generation.tensor_parallel
    flops = rollout_flops(arch, lengths.prompt, lengths.completion, passes)
    generating = sampling(
        arch,
        hardware,
        config.generation,
        lengths,
        rollouts=completions / engines,
        concurrency=fit.concurrency,
        prefill_flops=flops.prefill / passes.draws,
    ).seconds(reached)
    beside, speed = config.generation.overlap, hardware.peak_flops * reached.training_utilization
    size = np.maximum(fit.micro_batch, 1)
    micro_batches = completions / hardware.devices_per_run / size
    # Of the devices that judge and score, a share of the rollouts each.
    judged = completions / samplers
    judging = (
        reached.step_overhead_s
        + reached.answer_overhead_s * judged * passes.draws
        + reached.pass_overhead_s * passes.scoring * judged / size
    )
    # A backward pass counts as two; recomputation counts, as it does in `flops.hardware_flops`.
    trained = passes.num_iterations * (4.0 if hardware.gradient_checkpointing else 3.0)
    launching = reached.pass_overhead_s * micro_batches * trained
    scoring, training = learner
    # The weights go through the host's memory to a generator: written there, and read.
    weights = arch.parameters * PRECISION_BYTES[hardware.weights_dtype]
    transfer = 2 * weights / min(_HOST_BANDWIDTH, hardware.memory_bandwidth)
    gathering = _micro_batch_seconds(config, passes.num_iterations, 0 if beside else passes.scoring)
    return StepSeconds(
        training=(training if beside else scoring + training) / speed,
        generation=generating * passes.draws,
        update=_update_seconds(config) + micro_batches * gathering,
        overhead=launching if beside else launching + judging,
        beside=judging + scoring * hardware.devices_per_run / speed if beside else None,
        transfer=transfer if beside else 0.0,
    )


def sampling(
    arch: Architecture,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    lengths: Lengths,
    *,
    rollouts: Seconds,
    concurrency: NDArray[np.int64],
    prefill_flops: Count,
) -> Sampling:
    """What sampling `rollouts` takes on one device, `concurrency` at once.

    The devices of a tensor-parallel engine do it together. `transformers` decodes a batch until
    its longest has ended, all rows to the end. vLLM begins another rollout where one has ended,
    and runs on for the longest: of all, or of those that begin last.
    """
    prompt, completion = lengths.prompt, lengths.completion
    devices = generation.tensor_parallel
    together = np.maximum(np.minimum(concurrency, rollouts), 1)
    last, turns = longest_of(lengths, together), np.maximum(rollouts / together, 1.0)
    cached: Count
    if generation.name == "transformers":
        positions = turns * (last - 1)
        tokens = positions * together
        cached = prompt + last / 2
    else:
        refilled = (turns - 1) * completion + last
        positions = np.maximum(refilled, longest_of(lengths, np.maximum(rollouts, 1))) - 1
        tokens = np.maximum(rollouts, 1) * max(completion - 1, 0.0)
        cached = prompt + mean_cached(lengths)
    alive = tokens / np.maximum(positions, 1e-9)
    moved = positions * _weight_bytes(arch, hardware, alive, devices)
    moved = moved + tokens * cached * cache_bytes_per_token(arch, hardware.dtype, devices)
    flops = tokens * float(decode_flops(arch, prompt, completion)) / max(completion - 1, 1)
    peak = hardware.peak_flops * devices
    decoding = np.maximum(moved / hardware.memory_bandwidth, flops / peak)
    if devices > 1 and hardware.interconnect_bandwidth is not None:
        # Two ring all-reduces of the residual stream in every layer (arXiv 1909.08053, section 3).
        width = 2 * arch.num_layers * arch.hidden_size * PRECISION_BYTES[hardware.dtype]
        volume = tokens * width * 2 * (devices - 1) / devices
        decoding = decoding + volume / hardware.interconnect_bandwidth
    return Sampling(
        device=rollouts * prefill_flops / peak + decoding,
        positions=positions,
    )


def _weight_bytes(
    arch: Architecture, hardware: HardwareConfig, together: Seconds, devices: int
) -> Seconds:
    """Bytes of weights that each of an engine's `devices` reads to decode one position of
    `together` rollouts."""
    size = PRECISION_BYTES[hardware.dtype]
    weights = arch.active_parameters * np.ones_like(together, dtype=float)
    if arch.num_experts:
        # Each token takes k of E experts: the share that none of them takes is (1 - k/E)^tokens.
        share = arch.num_experts_per_token / arch.num_experts
        touched = 1 - (1 - share) ** np.maximum(together, 1.0)
        experts = arch.layer_weights - arch.active_layer_weights
        # At one token the active ones are read, at many tokens all of them.
        weights = weights + experts * (touched - share) / (1 - share)
    return weights * size / devices


def _update_seconds(config: SweepConfig) -> float:
    """Seconds of the updates of one step: states read and written, exchange, weight sync."""
    arch, recipe, hardware = config.model.architecture, config.recipe, config.run_hardware
    state, size = state_bytes(arch, recipe, hardware), PRECISION_BYTES[hardware.dtype]
    # AdamW reads weights, gradients and both states and writes all but the gradients.
    moved = 2 * (state.weights + state.optimizer) + state.gradients
    one = moved / hardware.memory_bandwidth
    if hardware.sharding == "ddp":
        # A ring all-reduce moves 2 (d - 1) / d of the gradients, a reduce-scatter half of it
        # (arXiv 1910.02054, section 7).
        gradients = (size if recipe.lora_rank is None else 4) * _trained(arch, recipe.lora_rank)
        one += _ring_seconds(hardware, 2 * gradients)
    seconds = recipe.updates_per_generation * one
    if config.generation.name == "vllm" and not config.generation.overlap:
        seconds += 2 * arch.parameters * size / hardware.memory_bandwidth
    return seconds


def _micro_batch_seconds(config: SweepConfig, updates: int, scoring: float) -> float:
    """Seconds in which weights that are sharded are gathered for the passes over a micro-batch:
    once to score it, twice to train on it (arXiv 1910.02054, section 7).

    FSDP also reduces its gradients then, in float32.
    """
    arch, hardware = config.model.architecture, config.run_hardware
    if hardware.sharding == "ddp":
        return 0.0
    volume = (scoring + 2.0 * updates) * arch.parameters * PRECISION_BYTES[hardware.dtype]
    gradients = updates * 4.0 * _trained(arch, config.recipe.lora_rank)
    return _ring_seconds(hardware, volume + gradients)


def _trained(arch: Architecture, lora_rank: int | None) -> int:
    """Parameters that have gradients."""
    return arch.parameters if lora_rank is None else adapter_weights(arch, lora_rank)


def _ring_seconds(hardware: HardwareConfig, volume: float) -> float:
    """Seconds in which the devices of a run send `volume` bytes around their ring once.

    NCCL makes as many rings as use every network card, each with a part of the volume: all of it
    passes both the links of each device and the cards of each node, one for every device of it
    (nccl-tests, doc/PERFORMANCE.md: bus bandwidth; gathers between nodes: arXiv 2306.10209,
    section 3).
    """
    devices, nodes = hardware.devices_per_run, hardware.nodes
    if devices == 1 or hardware.interconnect_bandwidth is None:
        return 0.0
    bandwidth = hardware.interconnect_bandwidth
    if nodes > 1 and hardware.node_bandwidth is not None:
        bandwidth = min(bandwidth, devices / nodes * hardware.node_bandwidth)
    return volume * (devices - 1) / devices / bandwidth
