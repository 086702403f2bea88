"""The groups of settings of where runs execute: devices, generation backend, launcher."""

import math
from dataclasses import dataclass

from isosweep.config.rules import one_of, positive, require

SHARDINGS = ("ddp", "fsdp", "zero1", "zero2", "zero3")


@dataclass(frozen=True, kw_only=True)
class HardwareConfig:
    """The devices of one run: `devices_per_run` of `memory_gb` (1e9 bytes) each.

    `peak_flops` (dense, at `dtype`, per second), `memory_bandwidth` and `interconnect_bandwidth`
    (bytes per second) are the datasheet's. The rest says how near a run comes to them, assumed
    until `mode=calibrate` has measured it: `training_utilization` is a share of the peak,
    `generation_utilization` a share of the roofline; `step_overhead_s` is spent once a step,
    `token_overhead_s` for every position that is decoded. `dtype` is computed in, `weights_dtype`
    held by the optimiser. `sharding`: `ddp` replicates; DeepSpeed's `zero1`, `zero2`, `zero3` shard
    optimiser states, gradients, weights, and `fsdp` all three. `memory_reserve` is the share of
    memory left free.
    `calibrated`: use measured efficiencies where there are any; `calibrated_from`: their sweep.
    """

    name: str
    device: str
    dtype: str
    weights_dtype: str
    gradient_checkpointing: bool
    memory_gb: float
    peak_flops: float
    memory_bandwidth: float
    interconnect_bandwidth: float | None = None
    training_utilization: float
    generation_utilization: float
    step_overhead_s: float
    token_overhead_s: float
    devices_per_run: int = 1
    sharding: str = "ddp"
    memory_reserve: float = 0.1
    calibrated: bool = True
    calibrated_from: str | None = None

    def __post_init__(self) -> None:
        one_of("hardware.device", self.device, ("cpu", "cuda"))
        for name in ("dtype", "weights_dtype"):
            one_of(f"hardware.{name}", getattr(self, name), ("float32", "bfloat16"))
        one_of("hardware.sharding", self.sharding, SHARDINGS)
        positive("hardware", self, "peak_flops", "memory_gb", "memory_bandwidth")
        positive("hardware", self, "interconnect_bandwidth", "devices_per_run")
        for name in ("training_utilization", "generation_utilization"):
            value, rule = getattr(self, name), "is a share of the peak: above 0, at most 1"
            require(0 < value <= 1, f"hardware.{name}", value, rule, f"hardware.{name}=0.3")
        for name in ("step_overhead_s", "token_overhead_s"):
            value, rule = getattr(self, name), "must be a finite number, 0 or more"
            holds = math.isfinite(value) and value >= 0
            require(holds, f"hardware.{name}", value, rule, f"hardware.{name}=0")
        share = self.memory_reserve
        rule = "is the share of memory left free: 0 or more, below 1"
        nearest = "hardware.memory_reserve=0.1"
        require(0 <= share < 1, "hardware.memory_reserve", share, rule, nearest)
        several = self.devices_per_run > 1
        require(
            not several or self.interconnect_bandwidth is not None,
            "hardware.devices_per_run",
            self.devices_per_run,
            f"{self.name} has no hardware.interconnect_bandwidth to synchronise over",
            "hardware.devices_per_run=1",
        )
        require(
            several or self.sharding == "ddp",
            "hardware.sharding",
            self.sharding,
            f"shards over devices, and hardware.devices_per_run={self.devices_per_run}",
            "hardware.sharding=ddp",
        )
        require(
            self.device != "cpu" or self.sharding == "ddp",
            "hardware.sharding",
            self.sharding,
            "shards over GPUs; torch cannot read a sharded checkpoint back on hardware.device=cpu",
            "hardware.sharding=ddp",
        )
