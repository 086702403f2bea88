"""What this machine has: GPUs that runs may use, and cores."""

import os
from pathlib import Path


def visible_gpus() -> int:
    """GPUs of this machine that runs may use; 0 without importing torch where there are none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
