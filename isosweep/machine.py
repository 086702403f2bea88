"""What this machine has: cores, and processes that are alive."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the garbage collector while much is made and all of it is kept: it would find nothing
    and take a fifth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def available_cores() -> int:
    """Return how many cores this process may run on, by its affinity if the system has one."""
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


def process_owner(pid: int) -> int | None:
    """Return the user id of the process; None if it has ended, or the system does not say."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def process_start(pid: int) -> int | None:
    """Return when the process began, in the kernel's ticks since boot; None if it has ended.

    With the id it names a process for good, as ids alone are used again. Linux only.
    """
    try:
        # As text, not as a Path, which takes longer to make than this to read: `mode=status` asks
        # it of every live run, three times.
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            stat = file.read()
    except OSError:
        return None
    # After the name, which may hold anything: state is field 3 of proc(5), starttime field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
