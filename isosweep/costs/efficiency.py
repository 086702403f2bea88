"""How near a run comes to the datasheet, where no setting of the hardware says it.

Each of `Efficiency` is the setting `hardware.<name>` where that is typed or calibrated, else what
this function expects. Six constants are fitted to published rows (`benchmarks/published.py`
prints them, planned over published, and fits them again); the others are measured or derived:

- training: matrix products reach the share `kernels` of what feeds them, which is the peak,
  limited by reading operands (a square product of width h does h / 2 FLOPs a byte, so the limit is
  harmonic in h / 2 x bandwidth) and by `fed`, in FLOP/s, however fast the device. Of a
  mixture of experts `routed` of that.
- sampling: the share `read` of the roofline, and `engine` seconds for each layer of a position.
- `answer` seconds for every answer of a device: requests, text, reward.
- a pass over a micro-batch, and a position decoded by transformers, is launched from Python:
  measured on an H200, 1.1 ms a layer (docs/planning.md).
"""

from dataclasses import dataclass

from isosweep.config.architecture import Architecture
from isosweep.config.generation import GenerationConfig
from isosweep.config.hardware import HardwareConfig

# Seconds to launch one layer of transformers forward: 24 layers took 26 ms a decoded position, and
# 0.1 s a micro-batch of four passes (docs/planning.md, "Measured on a GPU").
_LAUNCHED_LAYER_S = 1.1e-3


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The six constants that are fitted: see this file's head."""

    kernels: float = 0.7
    fed: float = 2e15
    routed: float = 0.65
    read: float = 0.6
    engine: float = 1.5e-4
    answer: float = 5e-3


FITTED = Fitted()


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Shares of peak and roofline, and seconds spent beside the device: named like the settings."""

    training_utilization: float
    generation_utilization: float
    pass_overhead_s: float
    token_overhead_s: float
    generation_overhead_s: float
    step_overhead_s: float
    update_overhead_s: float
    answer_overhead_s: float


def efficiency(
    arch: Architecture,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    fitted: Fitted = FITTED,
) -> Efficiency:
    """What a run of `arch` reaches: the hardware's settings, and what is expected of the others."""
    # On a CPU launching is computing.
    launched = _LAUNCHED_LAYER_S * arch.num_layers if hardware.device == "cuda" else 0.0
    position = launched if generation.name == "transformers" else fitted.engine * arch.num_layers

    def either(setting: float | None, expected: float) -> float:
        return expected if setting is None else setting

    return Efficiency(
        training_utilization=either(
            hardware.training_utilization, _training_utilization(arch, hardware, fitted)
        ),
        generation_utilization=either(hardware.generation_utilization, fitted.read),
        pass_overhead_s=either(hardware.pass_overhead_s, launched),
        token_overhead_s=either(hardware.token_overhead_s, position),
        generation_overhead_s=hardware.generation_overhead_s,
        step_overhead_s=hardware.step_overhead_s,
        update_overhead_s=hardware.update_overhead_s,
        answer_overhead_s=either(hardware.answer_overhead_s, fitted.answer),
    )


def _training_utilization(arch: Architecture, hardware: HardwareConfig, fitted: Fitted) -> float:
    """Share of the peak: attained = kernels / (1 / peak + 2 / (h x bandwidth) + 1 / fed)."""
    peak, width = hardware.peak_flops, arch.hidden_size
    share = fitted.kernels / (
        1 + 2 * peak / (width * hardware.memory_bandwidth) + peak / fitted.fed
    )
    return share * fitted.routed if arch.num_experts else share
