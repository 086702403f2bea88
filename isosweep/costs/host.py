"""Host memory that a run asks for.

All sizes are bytes (1 GB = 1e9), of all processes of a run on one of its nodes together.
"""

from dataclasses import dataclass

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import RecipeConfig
from isosweep.costs.memory import PRECISION_BYTES, reference_bytes

# A process that has imported the training stack, resident, with torch for CPUs: measured.
PROCESS_BYTES = 0.5e9


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """Host memory of a run on one node: its `processes`, and weights while they are read
    (`loading`)."""

    processes: float
    loading: float

    @property
    def total(self) -> float:
        """Bytes at the most demanding moment."""
        return self.processes + self.loading


def host_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> HostBytes:
    """Host memory that one run takes on each node.

    A GPU that holds whole weights reads them directly, a tensor at a time. Of FSDP's ranks the
    first of each node alone reads them, and the reference model beside (transformers,
    `is_local_dist_rank_0`). On a CPU the host is the device.
    """
    ranks = hardware.node_devices
    whole = float(arch.parameters * PRECISION_BYTES[hardware.weights_dtype])
    models = 2 if reference_bytes(arch, recipe, hardware) else 1
    if hardware.device == "cpu":
        loading = ranks * models * whole
    elif hardware.sharding == "ddp":
        loading = ranks * arch.embedding_weights * 4.0
    else:
        loading = models * whole
    return HostBytes(processes=ranks * PROCESS_BYTES, loading=loading)
