"""The groups of settings of where runs execute: devices, generation backend, launcher."""

import math
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from isosweep.settings import one_of, positive, require

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


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """What samples the rollouts: `transformers`, or `vllm`.

    `mode`: vLLM in the trainer's own process (`colocate`), or a `server` at `server_url` on
    devices of its own, which holds one policy and so serves one run at a time. `sleep`: colocated
    vLLM gives its memory back while the policy is updated.
    `prefix_sharing`: the n rollouts of a problem read its prompt once.
    `importance_sampling_correction`: TRL computes every completion's log-probabilities again to
    correct for the sampler's numerics.
    """

    name: str
    prefix_sharing: bool = False
    importance_sampling_correction: bool = False
    mode: str = "colocate"
    server_url: str | None = None
    sleep: bool = False

    def __post_init__(self) -> None:
        one_of("generation.name", self.name, ("transformers", "vllm"))
        one_of("generation.mode", self.mode, ("colocate", "server"))
        server = self.mode == "server"
        rule = "only generation=vllm speaks to a server"
        nearest = "generation.mode=colocate"
        require(not server or self.name == "vllm", "generation.mode", self.mode, rule, nearest)
        url = urllib.parse.urlsplit(self.server_url or "")
        holds = not server or (url.scheme in ("http", "https") and bool(url.hostname))
        rule = "generation.mode=server needs the URL of a vLLM server"
        example = "generation.server_url=http://localhost:8000"
        require(holds, "generation.server_url", self.server_url, rule, example)
        holds, rule = server or self.server_url is None, "is only asked in generation.mode=server"
        nearest = "generation.server_url=null"
        require(holds, "generation.server_url", self.server_url, rule, nearest)
        holds, rule = not (server and self.sleep), "a server has no memory to give back"
        require(holds, "generation.sleep", self.sleep, rule, "generation.sleep=false")
        for name in ("prefix_sharing", "importance_sampling_correction", "sleep"):
            require(
                self.name == "vllm" or not getattr(self, name),
                f"generation.{name}",
                getattr(self, name),
                "only generation=vllm does that",
                f"generation.{name}=false",
            )


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """What each Slurm job asks for. `additional` is passed to sbatch as it is.

    A run may go on in `max_requeues` further jobs when one reaches `timeout_min`.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    timeout_min: int = 240
    max_requeues: int = 3
    cpus_per_task: int = 8
    mem_gb: float | None = None
    gpus_per_node: int = 0
    setup: list[str] = field(default_factory=list)
    additional: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive("launcher.slurm", self, "timeout_min", "cpus_per_task", "mem_gb")
        rule = "must be 0 or more"
        value = self.gpus_per_node
        require(
            value >= 0,
            "launcher.slurm.gpus_per_node",
            value,
            rule,
            "launcher.slurm.gpus_per_node=0",
        )


@dataclass(frozen=True, kw_only=True)
class LauncherConfig:
    """Where runs execute. `max_parallel` null: one run per GPU, or per core on a CPU machine
    (`local`); every run at once (`slurm`). A run that fails is tried `max_retries` more times."""

    name: str
    max_parallel: int | None = None
    max_retries: int = 2
    stop_grace_s: float = 60.0
    slurm: SlurmConfig = field(default_factory=SlurmConfig)

    def __post_init__(self) -> None:
        one_of("launcher.name", self.name, ("local", "slurm"))
        positive("launcher", self, "max_parallel", "stop_grace_s")
        rule = "must be 0 or more"
        require(
            self.max_retries >= 0,
            "launcher.max_retries",
            self.max_retries,
            rule,
            "launcher.max_retries=0",
        )
