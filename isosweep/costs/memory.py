"""Memory that training holds throughout, on devices and on their host, and bytes of checkpoints.

All sizes are bytes (1 GB = 1e9). What a micro-batch adds is in `activations.py`. Not counted: the
device context and the allocator's fragmentation, which `hardware.memory_reserve` leaves room for;
of checkpoints the tokenizer and the trainer's own small files (16 MB with Qwen2.5's tokenizer), and
rollouts that wait for `recipe.rollout_lag`.
"""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture, adapter_weights
from isosweep.config.recipe import RecipeConfig
from isosweep.config.study import CheckpointConfig

# Bytes of one number in each precision.
PRECISION_BYTES = {"float32": 4, "bfloat16": 2}
# 8-bit AdamW: one float32 scale for 256 numbers (torchao/optim/adam.py: block size 256).
_EIGHT_BIT = 1 + 4 / 256
# A process that has imported the training stack, resident, with torch for CPUs: measured.
PROCESS_BYTES = 0.5e9
# The last complete checkpoint of a running run, and the one that is being written.
WHILE_RUNNING = 2
# Bytes a second at which one process writes, at most: an assumption, since torch.save and
# safetensors copy from one thread. `keep=all` is planned with it, and nothing else.
_FASTEST_WRITE = 2e9


@dataclass(frozen=True, kw_only=True)
class StateBytes:
    """What is held throughout training, whatever the batch."""

    weights: float
    gradients: float
    optimizer: float
    reference: float

    @property
    def total(self) -> float:
        """Bytes of all of it on one device."""
        return self.weights + self.gradients + self.optimizer + self.reference


def state_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> StateBytes:
    """Weights, gradients, optimiser states and reference model on one device.

    FSDP divides all of it by the devices, DDP nothing. Gradients have the precision of their
    weights; TRL loads the reference in the policy's, and under LoRA it is the policy without its
    adapters.
    """
    fsdp = hardware.sharding == "fsdp"
    shards = hardware.devices_per_run if fsdp else 1
    weights = gradients = weight_bytes(arch, recipe, hardware)
    reference = float(arch.parameters * PRECISION_BYTES[hardware.weights_dtype])
    if recipe.lora_rank is not None:
        gradients = 4.0 * adapter_weights(arch, recipe.lora_rank)
    if hardware.devices_per_run > 1 and not fsdp:
        # DDP's buckets, in which they are exchanged, are a copy.
        gradients *= 2
    return StateBytes(
        weights=weights / shards,
        gradients=gradients / shards,
        optimizer=optimizer_bytes(arch, recipe, hardware) / shards,
        reference=reference / shards if _has_reference(recipe) else 0.0,
    )


def _has_reference(recipe: RecipeConfig) -> bool:
    """Whether a frozen model is held beside the policy."""
    return recipe.beta > 0 and recipe.lora_rank is None


def weight_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The policy's weights, on all devices together where they are sharded.

    Under LoRA the frozen model is held in the precision that is computed in, and PEFT's adapters in
    float32.
    """
    compute, stored = PRECISION_BYTES[hardware.dtype], PRECISION_BYTES[hardware.weights_dtype]
    if recipe.lora_rank is not None:
        return arch.parameters * compute + 4.0 * adapter_weights(arch, recipe.lora_rank)
    # A head that is cast to float32 is held so.
    head = arch.embedding_weights * (4 - stored) if recipe.cast_lm_head_to_fp32 else 0
    return float(arch.parameters * stored + head)


def optimizer_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """AdamW's two states of all that is trained, on all devices together.

    They are in the precision of the weights, or in 8 bits.
    """
    if recipe.lora_rank is not None:
        trained, stored = adapter_weights(arch, recipe.lora_rank), 4
    else:
        trained, stored = arch.parameters, PRECISION_BYTES[hardware.weights_dtype]
    each = stored if hardware.optimizer == "adamw" else _EIGHT_BIT
    return 2.0 * each * trained


def kv_bytes_per_token(arch: Architecture, dtype: str) -> float:
    """Keys and values of one token in all layers; a sliding window is not credited."""
    return 2.0 * arch.num_layers * arch.num_kv_heads * arch.head_dim * PRECISION_BYTES[dtype]


def host_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """Host memory that one run takes on each node: its processes, and weights as they are read.

    A GPU that holds whole weights reads them directly, a tensor at a time. Of FSDP's ranks the
    first of each node alone reads them, and the reference model beside (transformers,
    `is_local_dist_rank_0`). On a CPU the host is the device.
    """
    ranks = hardware.node_devices
    whole = float(arch.parameters * PRECISION_BYTES[hardware.weights_dtype])
    models = 2 if _has_reference(recipe) else 1
    if hardware.device == "cpu":
        loading = ranks * models * whole
    elif hardware.sharding == "ddp":
        loading = ranks * arch.embedding_weights * 4.0
    else:
        loading = models * whole
    return ranks * PROCESS_BYTES + loading


@dataclass(frozen=True, kw_only=True)
class CheckpointBytes:
    """Bytes of one checkpoint: `weights` is what `checkpoint.keep=weights` leaves of it."""

    weights: float
    optimizer: float

    @property
    def total(self) -> float:
        """Bytes of all of it."""
        return self.weights + self.optimizer


def checkpoint_bytes(
    arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig
) -> CheckpointBytes:
    """Bytes of one checkpoint: what is trained, and the optimiser's states, each written once."""
    trained = arch.parameters
    if recipe.lora_rank is not None:
        trained = adapter_weights(arch, recipe.lora_rank)
    elif hardware.sharding == "fsdp" and arch.tie_word_embeddings:
        # Its parts have the head under both of its names.
        trained += arch.embedding_weights
    weights = float(trained * PRECISION_BYTES[hardware.weights_dtype])
    return CheckpointBytes(weights=weights, optimizer=optimizer_bytes(arch, recipe, hardware))


@dataclass(frozen=True, kw_only=True)
class RunBytes:
    """Bytes that one run's checkpoints take: while it runs, at most, and after its end."""

    running: float
    kept: float


def run_bytes(
    one: CheckpointBytes, config: CheckpointConfig, *, seconds: float, num_steps: int
) -> RunBytes:
    """Bytes of the checkpoints of a run of `seconds` and `num_steps`, at most."""
    least = min(one.total / _FASTEST_WRITE / config.share, config.max_interval_s)
    written = 1 + min(num_steps, math.floor(seconds / max(config.min_interval_s, least)))
    left = {"all": written * one.total, "resumable": one.total, "weights": one.weights, "none": 0.0}
    together = written if config.keep == "all" else min(written, WHILE_RUNNING)
    return RunBytes(running=together * one.total, kept=left[config.keep])


def peak_bytes(runs: Iterable[RunBytes], places: int) -> float:
    """Bytes that a sweep's checkpoints take at once, at most: `places` run while all others are
    over."""
    runs = list(runs)
    beyond = heapq.nlargest(places, (run.running - run.kept for run in runs))
    return math.fsum(run.kept for run in runs) + math.fsum(beyond)
