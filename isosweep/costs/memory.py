"""Memory that training holds throughout: weights, gradients, optimiser states, reference model.

All sizes are bytes (1 GB = 1e9). What a micro-batch adds is in `activations.py`. Not counted: the
device context and the allocator's fragmentation, which `HardwareConfig.memory_reserve` leaves room
for.
"""

from dataclasses import dataclass
from typing import assert_never

from isosweep.config.architecture import Architecture, adapter_weights
from isosweep.config.hardware import HardwareConfig, Optimizer
from isosweep.config.recipe import RecipeConfig

# Bytes of one number in each precision.
PRECISION_BYTES = {"float32": 4, "bfloat16": 2}
# Numbers that 8-bit AdamW quantises with one float32 scale (torchao/optim/adam.py and
# bitsandbytes/optim/optimizer.py: block size 256).
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

    ZeRO stage 1 shards optimiser states over the devices, stage 2 gradients as well, stage 3
    (FSDP) also weights (arXiv 1910.02054, figure 1); `hsdp` shards all over the devices of a node.
    What is offloaded is not on the device; states that are paged are planned as if they were not.
    """
    devices, stage = hardware.shards, _stage(hardware)
    whole = devices if stage >= 3 else 1
    weights, gradients = (
        weight_bytes(arch, recipe, hardware),
        gradient_bytes(arch, recipe, hardware),
    )
    optimizer = optimizer_bytes(arch, recipe, hardware)
    # FSDP's offloading takes weights and gradients with it.
    away = hardware.offload_optimizer and hardware.by_fsdp
    if hardware.sharding == "ddp" and devices > 1:
        # DDP's buckets, in which they are exchanged, are a copy.
        gradients *= 2
    return StateBytes(
        weights=0.0 if away else weights / whole,
        gradients=0.0 if away else gradients / (devices if stage >= 2 else 1),
        optimizer=0.0 if hardware.states_on_host else optimizer / (devices if stage >= 1 else 1),
        reference=reference_bytes(arch, recipe, hardware) / whole,
    )


def weight_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The policy's weights, on all devices together where they are sharded.

    DeepSpeed holds them in the precision that is computed in, and float32 ones with the states.
    Under LoRA the frozen model is held in that precision too, and PEFT's adapters in float32.
    """
    compute, stored = PRECISION_BYTES[hardware.dtype], PRECISION_BYTES[hardware.weights_dtype]
    if recipe.lora_rank is not None:
        return arch.parameters * compute + 4.0 * adapter_weights(arch, recipe.lora_rank)
    if hardware.sharding.startswith("zero"):
        return float(arch.parameters * compute)
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

    AdamW has two in the precision of the weights. DeepSpeed has them in float32, with float32
    weights (arXiv 1910.02054, section 3.1: 12 bytes a parameter). 8-bit states have a float32 scale
    for every 256 numbers; bitsandbytes' states of embeddings are float32 still (transformers'
    `Trainer.create_optimizer`).
    """
    if recipe.lora_rank is not None:
        trained, stored = adapter_weights(arch, recipe.lora_rank), 4
        embeddings = 0
    else:
        trained, stored = arch.parameters, PRECISION_BYTES[hardware.weights_dtype]
        embeddings = arch.embedding_weights
    if hardware.sharding.startswith("zero"):
        return 12.0 * trained
    kind: Optimizer = hardware.optimizer
    match kind:
        case "adamw":
            return 2.0 * stored * trained
        case "paged_adamw":
            return 8.0 * trained
        case "adamw_torch_8bit":
            return 2.0 * _EIGHT_BIT * trained
        case "adamw_8bit" | "paged_adamw_8bit":
            return 2.0 * _EIGHT_BIT * (trained - embeddings) + 8.0 * embeddings
        case unknown:
            assert_never(unknown)


def reference_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The frozen reference model: TRL loads it in the policy's precision; DeepSpeed casts it.

    Under LoRA it is the policy without its adapters.
    """
    if recipe.beta == 0 or recipe.lora_rank is not None:
        return 0.0
    cast = hardware.sharding.startswith("zero")
    held = hardware.dtype if cast else hardware.weights_dtype
    return float(arch.parameters * PRECISION_BYTES[held])


def _stage(hardware: HardwareConfig) -> int:
    return {"ddp": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hsdp": 3}[hardware.sharding]


def kv_bytes_per_token(arch: Architecture, dtype: str) -> float:
    """Keys and values of one token in all layers; a sliding window is not credited."""
    return 2.0 * arch.num_layers * arch.num_kv_heads * arch.head_dim * PRECISION_BYTES[dtype]
