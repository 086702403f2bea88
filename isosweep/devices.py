"""Which GPUs this process was given, and how the processes it starts are given some of them.

A GPU is named as the process was told of it: a number, a UUID or a MIG name. Only such names mean
the same in a child: numbers counted anew from 0 are other people's GPUs.
"""

import importlib.util
import os
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"


@dataclass(frozen=True, kw_only=True)
class Devices:
    """GPUs by name, in the order in which torch numbers them; `source` says who listed them."""

    names: tuple[str, ...]
    source: str

    @property
    def known(self) -> bool:
        """Whether anything listed them: a variable, or a driver that shows one at least."""
        return bool(self.names) or "=" in self.source

    def described(self) -> str:
        """Return how many there are, with the list that was inherited."""
        return f"{len(self.names)} here: {self.source}"

    def share(self, number: int, size: int) -> tuple[str, ...]:
        """Return the names of share `number`, of `size` devices each; the first again after all."""
        shares = max(1, len(self.names) // size)
        first = number % shares * size
        return self.names[first : first + size]


def visible_devices() -> Devices:
    """Return the GPUs that torch would show to this process, without importing it."""
    hip, rocr, cuda = (os.environ.get(name) for name in (HIP, ROCR, CUDA))
    present = _driver_devices()
    if torch_is_for_rocm():
        # HIP chooses among the devices that ROCR leaves (torch/cuda/__init__.py, as below).
        if rocr is not None:
            present = len(rocr.split(","))
        if hip is not None:
            return _listed(HIP, hip, present)
        if rocr is not None:
            return Devices(names=_numbers(present), source=f"{ROCR}={rocr}")
    if cuda is not None:
        return _listed(CUDA, cuda, present)
    return Devices(names=_numbers(present), source=f"the driver shows {present or 'none'}")


def showing(names: Sequence[str]) -> dict[str, str]:
    """Return the environment variables by which a process sees these GPUs and no more."""
    text = ",".join(names)
    # vLLM refuses two that differ (vllm/platforms/rocm.py).
    return {CUDA: text, HIP: text} if torch_is_for_rocm() else {CUDA: text}


def keep_first(count: int) -> None:
    """Show this process, and those it starts, the first `count` of its GPUs and no more.

    torch must not have initialised CUDA. Raises LookupError where there are fewer.
    """
    if visible_devices().known:
        os.environ.update(showing(_first(count)))


def device_after(count: int) -> str:
    """Return the name of the GPU after the first `count` of this process's. Raises LookupError
    where there is none."""
    return _first(count + 1)[-1]


def _first(count: int) -> tuple[str, ...]:
    devices = visible_devices()
    if len(devices.names) < count:
        raise LookupError(f"this run takes {count} GPUs, and there are {devices.described()}")
    return devices.names[:count]


@cache
def torch_is_for_rocm() -> bool:
    """Whether `torch.version.hip` is set; False where there is no torch."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    return runpy.run_path(str(Path(found.origin).with_name("version.py"))).get("hip") is not None


def _driver_devices() -> int:
    """Return how many GPUs the driver of NVIDIA, or AMD's for ROCm, shows; 0 without one."""
    if not torch_is_for_rocm():
        return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    # Nodes of this topology are CPUs too, whose id as a GPU is 0.
    nodes = Path("/sys/class/kfd/kfd/topology/nodes").glob("*/gpu_id")
    return sum(node.read_text().strip() not in ("", "0") for node in nodes)


def _listed(variable: str, value: str, present: int) -> Devices:
    """Return what a variable lists; with `present` devices, 0 if unknown, a larger number is
    invalid. The first invalid entry ends the list (CUDA C++ Programming Guide, CUDA Environment
    Variables), and a repeated one empties it (`_parse_visible_devices` in torch/cuda/__init__.py).
    """
    prefix = next((known for known in ("GPU-", "MIG-") if value.startswith(known)), None)
    names: list[str] = []
    for entry in map(str.strip, value.split(",")):
        if prefix is not None:
            valid = entry.startswith(prefix)
        else:
            valid = entry.isdigit() and not (present and int(entry) >= present)
        if not valid:
            break
        names.append(entry)
    if len({*names}) < len(names):
        names = []
    rest = "" if ",".join(names) == value else f", of which {','.join(names) or 'none'} can be seen"
    return Devices(names=tuple(names), source=f"{variable}={value}{rest}")


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))
