"""What a run asks of its host: memory, and bytes moved between host and devices.

All sizes are bytes (1 GB = 1e9), of all processes of a run on one of its nodes together.
"""

from dataclasses import dataclass

from isosweep.config.architecture import Architecture
from isosweep.config.hardware import HardwareConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.costs.checkpoints import checkpoint_bytes
from isosweep.costs.memory import (
    PRECISION_BYTES,
    gradient_bytes,
    optimizer_bytes,
    reference_bytes,
    weight_bytes,
)

# A process that has imported the training stack, resident, with torch for CPUs: measured.
PROCESS_BYTES = 0.5e9


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """Host memory of a run on one node: its `processes`, weights while they are read (`loading`),
    what stays (`offloaded`), and the copy that a checkpoint is written from while training goes on
    (`staged`).
    """

    processes: float
    loading: float
    offloaded: float
    staged: float

    @property
    def total(self) -> float:
        """Bytes at the most demanding moment."""
        return self.processes + self.loading + self.offloaded + self.staged


def host_bytes(
    arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig, *, background: bool
) -> HostBytes:
    """Host memory that one run takes on each node; its checkpoints are written in the `background`
    or not.

    A GPU that holds whole weights reads them directly, a tensor at a time. Of FSDP's ranks the
    first of each node alone reads them, and the reference model beside (transformers,
    `is_local_dist_rank_0`). Each rank of DeepSpeed reads all of them: it takes them over when
    training begins. On a CPU the host is the device. What is offloaded and shared over all devices
    is spread over the nodes. Of a copy for a checkpoint it is the first node's.
    """
    ranks = hardware.node_devices
    whole = float(arch.parameters * PRECISION_BYTES[hardware.weights_dtype])
    models = 2 if reference_bytes(arch, recipe, hardware) else 1
    if hardware.device == "cpu":
        loading = ranks * models * whole
    elif hardware.sharding == "ddp":
        loading = ranks * arch.embedding_weights * 4.0
    elif hardware.by_fsdp:
        loading = models * whole
    else:
        loading = ranks * models * whole
    offloaded = 0.0
    if hardware.states_on_host:
        copies = ranks if hardware.sharding == "ddp" else hardware.replicas / hardware.nodes
        held = optimizer_bytes(arch, recipe, hardware)
        if hardware.by_fsdp:
            held += weight_bytes(arch, recipe, hardware) + gradient_bytes(arch, recipe, hardware)
        elif hardware.offload_optimizer:
            # DeepSpeed keeps the gradients where it updates.
            held += gradient_bytes(arch, recipe, hardware)
        offloaded = copies * held
    # One process holds all of a replicated model; parts are written where they are.
    later = background and hardware.sharding == "ddp"
    return HostBytes(
        processes=ranks * PROCESS_BYTES,
        loading=loading,
        offloaded=offloaded,
        staged=checkpoint_bytes(arch, recipe, hardware).total if later else 0.0,
    )


def host_traffic(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """Bytes that an update moves between host and the devices of one copy, both ways together.

    Paged states come and go once, at worst. DeepSpeed sends gradients down and weights up; FSDP
    sends weights up twice, for the forward and the backward pass (once a micro-batch in truth:
    planned as one micro-batch).
    """
    if not hardware.states_on_host:
        return 0.0
    if not hardware.offload_optimizer:
        return 2.0 * optimizer_bytes(arch, recipe, hardware)
    weights = weight_bytes(arch, recipe, hardware)
    sent = 2.0 if hardware.by_fsdp else 1.0
    return gradient_bytes(arch, recipe, hardware) + sent * weights
