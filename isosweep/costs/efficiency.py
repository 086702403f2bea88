"""How near a run comes to the datasheet, where no setting of the hardware says it.

Each of `Efficiency` is the setting `hardware.<name>` where that is typed, else what
this function expects. Six constants are fitted to published rows (`benchmarks/published.py`
prints them, planned over published, and fits them again); the others are measured or derived:

- training: the share `kernels` of the roofline, and `attained` FLOP/s at most, however fast the
  device (what was published of B200 is hardly more than of H200). Of a mixture `routed` of that.
- sampling: the share `read` of the roofline, and `engine` seconds for each layer of a position.
- `answer` seconds for every answer of a device: requests, text, reward.
- a pass over a micro-batch, and a position decoded by transformers, is launched from Python:
  measured on an H200, 1.1 ms a layer (docs/measured_gpu.md).
"""

from dataclasses import dataclass

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import GenerationConfig

# Seconds to launch one layer of transformers forward: 24 layers took 26 ms a decoded position, and
# 0.1 s a micro-batch of four passes (docs/measured_gpu.md).
_LAUNCHED_LAYER_S = 1.1e-3


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The six constants that are fitted: see this file's head."""

    kernels: float = 0.44
    attained: float = 5.7e14
    routed: float = 0.66
    read: float = 0.49
    engine: float = 4.1e-5
    answer: float = 4e-3


FITTED = Fitted()


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Shares of peak and roofline, and seconds spent beside the device: named like the settings."""

    training_utilization: float
    generation_utilization: float
    pass_overhead_s: float
    token_overhead_s: float
    step_overhead_s: float
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

    kernels = fitted.routed if arch.num_experts else 1.0

    def either(setting: float | None, expected: float) -> float:
        return expected if setting is None else setting

    return Efficiency(
        training_utilization=either(
            hardware.training_utilization, kernels * _training_utilization(arch, hardware, fitted)
        ),
        generation_utilization=either(hardware.generation_utilization, fitted.read * kernels),
        pass_overhead_s=either(hardware.pass_overhead_s, launched),
        token_overhead_s=either(hardware.token_overhead_s, position),
        step_overhead_s=hardware.step_overhead_s,
        answer_overhead_s=either(hardware.answer_overhead_s, fitted.answer),
    )


def _training_utilization(arch: Architecture, hardware: HardwareConfig, fitted: Fitted) -> float:
    """Share of the peak that training of a dense model reaches."""
    width = arch.expert_intermediate_size if arch.num_experts else arch.intermediate_size
    # A product of h by w does 2 h w FLOPs a token, and reads and writes h + w numbers of 2 bytes.
    fed = hardware.memory_bandwidth / (1 / arch.hidden_size + 1 / width)
    attained = min(fitted.kernels * min(hardware.peak_flops, fed), fitted.attained)
    return attained / hardware.peak_flops
