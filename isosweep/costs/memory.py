"""Device memory of one GRPO run, part by part, from architecture, precision and batch.

All sizes are bytes (1 GB = 1e9) on one device. Counted: weights, gradients and AdamW's two states
in the precision they are held in, the copies that autocast makes, a frozen reference model,
activations saved for the backward pass, logits, and what generation holds. Not counted: the
device context and the allocator's fragmentation, which `HardwareConfig.memory_reserve` leaves
room for. Arrays of batches broadcast.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isosweep.config.architecture import Architecture, adapter_weights
from isosweep.config.hardware import HardwareConfig
from isosweep.config.recipe import RecipeConfig

Bytes = float | NDArray[np.float64]

# Bytes of one number in each precision.
PRECISION_BYTES = {"float32": 4, "bfloat16": 2}
# Float32 copies of the logits of a micro-batch alive at once in TRL's loss: the upcast logits,
# those divided by the temperature, their log-softmax, and its gradient.
_LOGIT_COPIES = 4


@dataclass(frozen=True, kw_only=True)
class StateBytes:
    """What is held throughout training, whatever the batch."""

    weights: float
    autocast: float
    gradients: float
    optimizer: float
    reference: float

    @property
    def total(self) -> float:
        """Bytes of all of it on one device."""
        return self.weights + self.autocast + self.gradients + self.optimizer + self.reference


def state_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> StateBytes:
    """Weights, gradients, optimiser states and copies on one device.

    ZeRO stage 1 shards optimiser states over the devices, stage 2 gradients as well, stage 3
    (FSDP) also weights (arXiv 1910.02054, figure 1).
    """
    compute, stored = PRECISION_BYTES[hardware.dtype], PRECISION_BYTES[hardware.weights_dtype]
    devices, stage = hardware.devices_per_run, _stage(hardware)
    parameters = arch.parameters
    trained = parameters
    if recipe.lora_rank is not None:
        # Adapters are trained in the precision of weights; the frozen model stays as computed.
        trained = adapter_weights(arch, recipe.lora_rank)
        weights = parameters * compute + trained * stored
    else:
        weights = parameters * stored
    autocast = parameters * compute if stored != compute and recipe.lora_rank is None else 0
    reference = parameters * compute if recipe.beta > 0 and recipe.lora_rank is None else 0
    whole = devices if stage >= 3 else 1
    return StateBytes(
        weights=weights / whole,
        autocast=autocast / whole,
        gradients=trained * stored / (devices if stage >= 2 else 1),
        optimizer=2 * trained * stored / (devices if stage >= 1 else 1),
        reference=reference / whole,
    )


def _stage(hardware: HardwareConfig) -> int:
    return {"ddp": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}[hardware.sharding]


def layer_activation_bytes(arch: Architecture, dtype: str) -> float:
    """Bytes that one layer saves per token for its backward pass, without checkpointing.

    What transformers' Qwen2, Qwen3 and Llama layers save under SDPA, held to a real model by a
    test: two RMS norms (float32 input, normalised and scaled output), keys and values repeated
    to all heads, queries, attention output, and four tensors of the gated MLP.
    """
    size = PRECISION_BYTES[dtype]
    norms = 2 * arch.hidden_size * (4 + 2 * size)
    attention = 4 * arch.num_heads * arch.head_dim * size
    if arch.qk_norm:
        attention += (arch.num_heads + arch.num_kv_heads) * arch.head_dim * (4 + size)
    width = arch.intermediate_size
    if arch.num_experts:
        # Each expert that a token is sent to saves its own input and its output besides.
        width = arch.num_experts_per_token * arch.expert_intermediate_size
        norms += 2 * arch.num_experts_per_token * arch.hidden_size * size
    return norms + attention + 4.0 * width * size


def training_bytes(
    arch: Architecture, hardware: HardwareConfig, *, prompt: float, completion: float
) -> float:
    """Activations and logits of one completion in a micro-batch, padded to these lengths."""
    tokens = prompt + completion
    layer = layer_activation_bytes(arch, hardware.dtype)
    if hardware.gradient_checkpointing:
        # Every layer keeps its input; one layer at a time is computed again.
        kept = arch.num_layers * arch.hidden_size * PRECISION_BYTES[hardware.dtype]
        activations = tokens * (kept + layer)
    else:
        activations = tokens * arch.num_layers * layer
    return activations + completion * arch.vocab_size * 4.0 * _LOGIT_COPIES


def kv_bytes_per_token(arch: Architecture, dtype: str) -> float:
    """Keys and values of one token in all layers; a sliding window is not credited."""
    return 2.0 * arch.num_layers * arch.num_kv_heads * arch.head_dim * PRECISION_BYTES[dtype]
