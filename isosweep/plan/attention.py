"""Which attention kernels `hardware.attention=auto` comes to, on the machine that plans."""

import importlib.util
from dataclasses import replace

from isosweep.config.hardware import Attention, HardwareConfig
from isosweep.config.sweep import SweepConfig

# Packages of the kernels that a choice needs.
PACKAGES: dict[Attention, str] = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
}


def with_attention(config: SweepConfig) -> SweepConfig:
    """`config` with the attention that its runs will have on every machine.

    Runs are planned with what this machine has, and keep it: it is part of their identity.
    """
    chosen = chosen_attention(config.hardware)
    return replace(config, hardware=replace(config.hardware, attention=chosen))


def chosen_attention(hardware: HardwareConfig) -> Attention:
    """flash-attention where `auto` may choose: it is installed here, and a run is on GPUs in
    bfloat16; else `sdpa`."""
    if hardware.attention != "auto":
        return hardware.attention
    if hardware.device == "cuda" and hardware.dtype == "bfloat16":
        for choice, package in reversed(PACKAGES.items()):
            if importlib.util.find_spec(package) is not None:
                return choice
    return "sdpa"
