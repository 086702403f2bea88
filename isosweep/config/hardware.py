"""The devices that runs are trained on."""

from typing import Annotated, Literal

from annotated_types import Ge, Lt

from isosweep.config.settings import settings
from isosweep.config.values import NonNegative, Positive, PositiveInt, Says, Share
from isosweep.errors import SettingError

Device = Literal["cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
Sharding = Literal["ddp", "fsdp", "zero1", "zero2", "zero3"]
_PartOfPeak = Annotated[Share, Says("is a share of the peak: above 0, at most 1", "0.3")]


@settings("hardware")
class HardwareConfig:
    """The devices of one run: what the datasheet says, and how near a run comes to it.

    Bandwidths and `peak_flops` are the datasheet's. Utilizations and overheads are assumed until
    `mode=calibrate` has measured them.
    """

    name: str
    """Name of the device."""
    device: Device
    """What torch calls it."""
    dtype: Precision
    """Precision that is computed in."""
    weights_dtype: Precision
    """Precision of the weights that the optimiser updates."""
    gradient_checkpointing: bool
    """Activations are computed again in the backward pass."""
    memory_gb: Positive
    """Memory of one device, in 1e9 bytes."""
    peak_flops: Positive
    """Peak of one device, dense, at `dtype`, in FLOPs per second."""
    memory_bandwidth: Positive
    """Bytes per second between a device and its memory."""
    interconnect_bandwidth: Positive | None = None
    """Bytes per second between devices, one way; null: none to use several by."""
    training_utilization: _PartOfPeak
    """Share of the peak that training reaches."""
    generation_utilization: _PartOfPeak
    """Share of the roofline that sampling reaches."""
    step_overhead_s: NonNegative
    """Seconds spent once a step."""
    token_overhead_s: NonNegative
    """Seconds spent for every position that is decoded."""
    devices_per_run: PositiveInt = 1
    """Devices of one run."""
    sharding: Sharding = "ddp"
    """`ddp` replicates; DeepSpeed's `zero1`, `zero2`, `zero3` shard optimiser states, gradients,
    weights; `fsdp` shards all three."""
    memory_reserve: Annotated[
        float, Ge(0), Lt(1), Says("is the share of memory left free: 0 or more, below 1", "0.1")
    ] = 0.1
    """Share of memory left free."""
    calibrated: bool = True
    """Use measured efficiencies where `mode=calibrate` has stored some."""
    calibrated_from: str | None = None
    """The sweep that the efficiencies were measured in, filled in where they are used."""

    def __post_init__(self) -> None:
        several = self.devices_per_run > 1
        if several and self.interconnect_bandwidth is None:
            raise SettingError(
                "hardware.devices_per_run",
                self.devices_per_run,
                f"{self.name} has no hardware.interconnect_bandwidth to synchronise over",
                "hardware.devices_per_run=1",
            )
        if self.sharding == "ddp":
            return
        if not several:
            rule = f"shards over devices, and hardware.devices_per_run={self.devices_per_run}"
        elif self.device == "cpu":
            rule = (
                "shards over GPUs; torch cannot read a sharded checkpoint back on "
                "hardware.device=cpu"
            )
        else:
            return
        raise SettingError("hardware.sharding", self.sharding, rule, "hardware.sharding=ddp")
