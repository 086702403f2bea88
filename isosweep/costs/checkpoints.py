"""Bytes of a checkpoint, of a run's checkpoints and of a sweep's, from architecture and settings.

Counted: the weights that are trained, and the optimiser's states, in the precision they are held
in; with LoRA the adapters alone. Not counted: tokenizer and the trainer's own small files (16 MB
with Qwen2.5's tokenizer), and rollouts that wait for `recipe.rollout_lag`.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture, adapter_weights
from isosweep.config.recipe import RecipeConfig
from isosweep.config.study import CheckpointConfig
from isosweep.costs.memory import PRECISION_BYTES, optimizer_bytes

# The last complete one of a running run, and the one that is being written.
WHILE_RUNNING = 2
# Bytes a second at which one process writes, at most: an assumption, since torch.save and
# safetensors copy from one thread. `keep=all` is planned with it, and nothing else.
_FASTEST_WRITE = 2e9


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
    """Bytes of one checkpoint; all devices' together, for what they share, or copies, is written
    once.

    Wherever the optimiser's states are held, on devices or on the host, they are written.
    """
    trained = arch.parameters
    if recipe.lora_rank is not None:
        trained = adapter_weights(arch, recipe.lora_rank)
    elif hardware.sharding == "fsdp" and arch.tie_word_embeddings:
        # Its parts have the head under both of its names.
        trained += arch.embedding_weights
    weights = float(trained * PRECISION_BYTES[hardware.weights_dtype])
    return CheckpointBytes(weights=weights, optimizer=optimizer_bytes(arch, recipe, hardware))


def written(
    one: CheckpointBytes, config: CheckpointConfig, *, seconds: float, num_steps: int
) -> int:
    """How many checkpoints a run of `seconds` and `num_steps` writes, at most."""
    least = min(one.total / _FASTEST_WRITE / config.share, config.max_interval_s)
    intervals = seconds / max(config.min_interval_s, least)
    return 1 + min(num_steps, math.floor(intervals))


def kept_bytes(one: CheckpointBytes, config: CheckpointConfig, count: int) -> float:
    """Bytes that are left after the end of a run that has written `count` checkpoints, at most."""
    match config.keep:
        case "all":
            return count * one.total
        case "resumable":
            return one.total
        case "weights":
            return one.weights
        case "none":
            return 0.0
        case unknown:
            assert_never(unknown)


@dataclass(frozen=True, kw_only=True)
class RunBytes:
    """Bytes that one run's checkpoints take: while it runs, at most, and after its end."""

    running: float
    kept: float


def run_bytes(one: CheckpointBytes, config: CheckpointConfig, count: int) -> RunBytes:
    """Bytes of the checkpoints of a run that writes `count`."""
    kept = kept_bytes(one, config, count)
    together = count if config.keep == "all" else min(count, WHILE_RUNNING)
    return RunBytes(running=together * one.total, kept=kept)


def peak_bytes(runs: Sequence[RunBytes], places: int) -> float:
    """Bytes that a sweep's checkpoints take at once, at most: `places` run while all others are
    over."""
    beyond = heapq.nlargest(places, (run.running - run.kept for run in runs))
    return math.fsum(run.kept for run in runs) + math.fsum(beyond)
