"""What this machine has: cores, and processes that are alive."""

import os
from pathlib import Path


def available_cores() -> int:
    """Cores that this process may run on, by its affinity where the system has one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_alive(pid: int) -> bool:
    """Whether a process has this id; one that has ended and was not collected does not count."""
    if Path("/proc/self").exists():
        return process_start(pid) is not None
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def process_start(pid: int) -> int | None:
    """When the process began, in the kernel's ticks since boot; None if it has ended.

    With the id it names a process for good, as ids alone are used again. Linux only.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # After the name, which may hold anything: state is field 3 of proc(5), starttime field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
