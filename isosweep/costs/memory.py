"""Memory that training holds throughout: weights, gradients, optimiser states, reference model.

All sizes are bytes (1 GB = 1e9). What a micro-batch adds is in `activations.py`. Not counted: the
device context and the allocator's fragmentation, which `HardwareConfig.memory_reserve` leaves room
for.
"""

from dataclasses import dataclass

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture, adapter_weights
from isosweep.config.recipe import RecipeConfig

# Bytes of one number in each precision.
PRECISION_BYTES = {"float32": 4, "bfloat16": 2}
# Numbers that 8-bit AdamW quantises with one float32 scale (torchao/optim/adam.py: block size 256).
_BLOCK = 256
_EIGHT_BIT = 1 + 4 / _BLOCK


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

    FSDP divides all of it by the devices, DDP nothing.
    """
    fsdp = hardware.sharding == "fsdp"
    shards = hardware.devices_per_run if fsdp else 1
    gradients = gradient_bytes(arch, recipe, hardware)
    if hardware.devices_per_run > 1 and not fsdp:
        # DDP's buckets, in which they are exchanged, are a copy.
        gradients *= 2
    return StateBytes(
        weights=weight_bytes(arch, recipe, hardware) / shards,
        gradients=gradients / shards,
        optimizer=optimizer_bytes(arch, recipe, hardware) / shards,
        reference=reference_bytes(arch, recipe, hardware) / shards,
    )


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


def gradient_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """Gradients of all that is trained, each in the precision of its weight."""
    if recipe.lora_rank is not None:
        return 4.0 * adapter_weights(arch, recipe.lora_rank)
    return weight_bytes(arch, recipe, hardware)


def optimizer_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The optimiser's states of all that is trained, on all devices together.

    AdamW has two in the precision of the weights. 8-bit states have a float32 scale for every 256
    numbers.
    """
    if recipe.lora_rank is not None:
        trained, stored = adapter_weights(arch, recipe.lora_rank), 4
    else:
        trained, stored = arch.parameters, PRECISION_BYTES[hardware.weights_dtype]
    each = stored if hardware.optimizer == "adamw" else _EIGHT_BIT
    return 2.0 * each * trained


def reference_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The frozen reference model, which TRL loads in the policy's precision.

    Under LoRA it is the policy without its adapters.
    """
    if recipe.beta == 0 or recipe.lora_rank is not None:
        return 0.0
    return float(arch.parameters * PRECISION_BYTES[hardware.weights_dtype])


def kv_bytes_per_token(arch: Architecture, dtype: str) -> float:
    """Keys and values of one token in all layers; a sliding window is not credited."""
    return 2.0 * arch.num_layers * arch.num_kv_heads * arch.head_dim * PRECISION_BYTES[dtype]
