"""The devices that runs are trained on."""

import math
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Lt

from isosweep.config.base import NonNegative, Positive, PositiveInt, Settings, Share
from isosweep.config.overrides import as_typed
from isosweep.errors import SettingError

Device = Literal["cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
Sharding = Literal["ddp", "fsdp"]
# `adamw` is torch's, `adamw_torch_8bit` torchao's.
Optimizer = Literal["adamw", "adamw_torch_8bit"]
# What transformers calls them.
Attention = Literal["sdpa", "flash_attention_2", "flash_attention_3"]
# Parts of a run whose predicted seconds are corrected, each by a factor of its own.
Phase = Literal["generation", "training", "evaluation", "start"]
PHASES: tuple[Phase, ...] = get_args(Phase)
# Seconds to load libraries, weights and the engine: measured of the built-in model, and assumed.
_STARTUP_S: dict[Device, float] = {"cpu": 1.0, "cuda": 120.0}


class MeasuredTimes(Settings, group="hardware.calibrated_from"):
    """Measured over planned seconds of each phase: medians over runs on this hardware."""

    runs: PositiveInt
    """Runs that were measured."""
    generation: Positive = 1.0
    """Sampling of rollouts, and their rewards where the sampler takes them."""
    training: Positive = 1.0
    """All else of a step."""
    evaluation: Positive = 1.0
    """Held-out evaluations."""
    start: Positive = 1.0
    """From a run's beginning to its first evaluation."""

    def __str__(self) -> str:
        factors = ", ".join(f"{phase} x{getattr(self, phase):.2g}" for phase in PHASES)
        return f"{self.runs} runs on this hardware: {factors}"


class HardwareConfig(Settings, group="hardware"):
    """The devices of one run. Bandwidths and `peak_flops` are the datasheet's. Utilizations and
    overheads are assumed; times that follow from them are corrected by runs that were measured."""

    name: str
    """Name of the device."""
    device: Device = "cuda"
    """torch's name for it."""
    dtype: Precision = "bfloat16"
    """Precision of the computation."""
    weights_dtype: Precision = "float32"
    """Precision of the weights that the optimiser updates."""
    gradient_checkpointing: bool = True
    """Compute activations again in the backward pass, to save memory."""
    memory_gb: Positive
    """Memory of one device, in 1e9 bytes."""
    peak_flops: Positive
    """Peak of one device in FLOPs per second, dense, at `dtype`."""
    memory_bandwidth: Positive
    """Bytes per second between a device and its memory."""
    interconnect_bandwidth: Positive | None = None
    """Bytes per second between devices of a node, one way; null: a run cannot use several."""
    node_bandwidth: Positive | None = None
    """Bytes per second between a device and another node, one way; null: a run takes one node."""
    training_utilization: Share | None = None
    """Share of the peak that training reaches; null: an estimate from model and device
    (`isosweep/costs/efficiency.py`)."""
    generation_utilization: Share | None = None
    """Share of the roofline that sampling reaches; null: an estimate."""
    pass_overhead_s: NonNegative | None = None
    """Fixed seconds of a forward pass over a micro-batch (a backward pass counts twice); null: an
    estimate."""
    token_overhead_s: NonNegative | None = None
    """Fixed seconds of a decoded position; null: an estimate."""
    step_overhead_s: NonNegative = 1.0
    """Fixed seconds of a generation of n x B rollouts and its updates."""
    answer_overhead_s: NonNegative | None = None
    """Seconds to decode, judge and batch one answer; null: an estimate."""
    devices_per_run: PositiveInt = 1
    """Devices of one run."""
    devices_per_node: PositiveInt | None = None
    """Devices that a node has; null: any number."""
    nodes_per_run: PositiveInt | None = None
    """Nodes of one run, which share its devices evenly; null: as few as have them."""
    sharding: Sharding = "ddp"
    """How several devices share a model: `ddp` copies it; `fsdp` shards weights, gradients and
    optimiser states."""
    optimizer: Optimizer = "adamw"
    """AdamW: torch's, or torchao's with 8-bit states (`adamw_torch_8bit`)."""
    attention: Attention = "sdpa"
    """Attention kernels, by transformers' names."""
    memory_reserve: Annotated[float, Ge(0), Lt(1)] = 0.1
    """Share of memory that the plan leaves free."""
    dollars_per_hour: Positive | None = None
    """US dollars for an hour of one device (of one core with `hardware=cpu`); null: no dollars are
    shown."""
    calibrated: bool = True
    """Correct predicted times by what runs in `sweeps_dir` took."""
    calibrated_from: MeasuredTimes | None = None
    """What they took; filled in automatically."""

    def _check(self) -> None:
        self._check_devices()
        flash = self.attention.startswith("flash")
        if flash and (self.device == "cpu" or self.dtype == "float32"):
            raise self._refused("attention", "computes in bfloat16 on GPUs alone")

    def _check_devices(self) -> None:
        several = self.devices_per_run > 1
        if several and self.interconnect_bandwidth is None:
            rule = f"{self.name} has no hardware.interconnect_bandwidth to synchronise over"
            setting = "hardware.devices_per_run"
            devices = f"{setting}={self.devices_per_run}"
            nearest = f"{setting}=1, or hardware.interconnect_bandwidth=1e10 {devices}"
            raise SettingError(setting, self.devices_per_run, rule, nearest)
        self._check_nodes()
        if self.sharding == "ddp":
            return
        if not several:
            rule = f"shards over devices, and hardware.devices_per_run={self.devices_per_run}"
        elif self.device == "cpu":
            rule = (
                "shards over GPUs: with hardware.device=cpu accelerate would replicate without a "
                "word, as hardware.sharding=ddp does"
            )
        else:
            return
        raise self._refused("sharding", rule)

    def _check_nodes(self) -> None:
        devices, nodes, most = self.devices_per_run, self.nodes, self.devices_per_node or 1
        least = math.ceil(devices / (self.devices_per_node or devices))
        if devices % nodes and self.nodes_per_run is None:
            rule = f"must be a multiple of its {nodes} nodes"
            setting = "hardware.devices_per_run"
            nearest = f"{setting}={devices // most * most}, or {setting}={least * most}"
            raise SettingError("hardware.devices_per_run", devices, rule, nearest)
        if devices % nodes or nodes < least:
            rule = f"must divide hardware.devices_per_run={devices}"
            if nodes < least:
                rule = f"has {most} devices a node, and hardware.devices_per_run={devices}"
            works = [n for n in range(least, devices + 1) if devices % n == 0]
            nearest = f"hardware.nodes_per_run={min(works, key=lambda n: abs(n - nodes))}"
            raise SettingError("hardware.nodes_per_run", nodes, rule, nearest)
        if nodes > 1 and self.node_bandwidth is None:
            rule = f"a run of {nodes} nodes synchronises over it"
            nearest = "hardware.node_bandwidth=5e10 (400 Gb/s a device), or a run of one node"
            raise SettingError("hardware.node_bandwidth", "null", rule, nearest)

    def _refused(self, name: str, rule: str) -> SettingError:
        return SettingError(f"hardware.{name}", getattr(self, name), rule)

    @property
    def nodes(self) -> int:
        """Nodes of one run."""
        if self.nodes_per_run is not None:
            return self.nodes_per_run
        return math.ceil(self.devices_per_run / (self.devices_per_node or self.devices_per_run))

    @property
    def node_devices(self) -> int:
        """Devices of one run on each of its nodes."""
        return self.devices_per_run // self.nodes

    def taking(self, devices: int) -> dict[str, Any]:
        """Settings, by name, with which a run takes so many devices on as few nodes as have them;
        those alone that change."""
        wanted: dict[str, Any] = {"devices_per_run": devices, "nodes_per_run": None}
        if devices == 1:
            wanted["sharding"] = "ddp"
        return {name: value for name, value in wanted.items() if getattr(self, name) != value}

    @property
    def one_node(self) -> str:
        """What is typed to give a run the devices of one node alone."""
        most = self.devices_per_node or self.devices_per_run
        taken = self.taking(min(self.devices_per_run, most))
        return " ".join(as_typed({f"hardware.{name}": value for name, value in taken.items()}))

    @property
    def usable_bytes(self) -> float:
        """Bytes of a device that its runs may take: all but `memory_reserve`."""
        return self.memory_gb * 1e9 * (1 - self.memory_reserve)

    @property
    def startup(self) -> float:
        """Seconds until a run begins."""
        return _STARTUP_S[self.device] * self.factor("start")

    def factor(self, phase: Phase) -> float:
        """Measured over planned seconds of a phase; 1 where nothing was measured."""
        measured = self.calibrated_from
        return 1.0 if measured is None else float(getattr(measured, phase))
