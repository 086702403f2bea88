"""What a policy's training needs beside the stack: host memory, optimiser, attention kernels."""

import importlib.util
import math
import os
from collections.abc import Sequence

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.host import host_bytes
from isosweep.plan.attention import PACKAGES, chosen_attention

Missing = list[tuple[str, str]]

_OPTIMIZERS = {
    "adamw_8bit": "bitsandbytes",
    "paged_adamw": "bitsandbytes",
    "paged_adamw_8bit": "bitsandbytes",
    "adamw_torch_8bit": "torchao",
}


def missing_for_training(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """What is missing, each with what to do about it; [] if nothing."""
    hardware = config.hardware
    missing = []
    optimizer, attention = _OPTIMIZERS.get(hardware.optimizer), chosen_attention(hardware)
    if optimizer is not None and not importlib.util.find_spec(optimizer):
        remedy = f"pip install {optimizer}, or set hardware.optimizer=adamw"
        missing.append((f"the package {optimizer} (hardware.optimizer)", remedy))
    kernels = PACKAGES.get(attention)
    if kernels is not None and not importlib.util.find_spec(kernels):
        remedy = "install it, or set hardware.attention=sdpa"
        missing.append((f"the package {kernels} (hardware.attention={attention})", remedy))
    return missing + _missing_host_memory(config, variants)


def _missing_host_memory(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """Whether one run of each variant loads on its host."""
    needed = max(
        host_bytes(v.config.model.architecture, v.config.recipe, v.config.hardware).total / 1e9
        for v in variants
    )
    if config.launcher.name == "slurm":
        given = config.launcher.slurm.mem_gb
        if given is None or needed <= given:
            return []
        what = f"{needed:,.1f} GB of host memory in each job, which asks for {given:g}"
        return [(what, f"set launcher.slurm.mem_gb={math.ceil(needed)}")]
    if config.launcher.name == "command":
        given = config.launcher.command.mem_gb
        what = f"{needed:,.1f} GB of host memory in each job, which asks for {given}"
        remedy = f"set launcher.command.mem_gb={math.ceil(needed)}"
        return [(what, remedy)] if needed > given else []
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if needed <= here:
        return []
    what = f"{needed:,.1f} GB of host memory to load a run, where this machine has {here:,.1f}"
    return [(what, "a smaller model, hardware.sharding=fsdp, or a machine with more memory")]
