"""What the kernel denies a process for the rest of its life: seccomp, and limits of resources.

One list of system calls is allowed, every other fails with EPERM. libseccomp is needed, which
comes with systemd and apt, and Linux with seccomp filters (3.17 or later; containers and compute
nodes have them, no rights are needed). Nothing here depends on who the user is, root included.
"""

import ctypes
import errno
import os
import resource
import signal

_SECCOMP = ctypes.CDLL("libseccomp.so.2")
_SECCOMP.seccomp_init.restype = ctypes.c_void_p

# A call that this machine's architecture does not have is not allowed.
_ALLOWED = """
brk clock_getres clock_gettime clock_nanosleep close exit exit_group fstat futex getegid geteuid
getgid getpid getppid getrandom getrusage gettid gettimeofday getuid lseek madvise mmap mprotect
mremap munmap nanosleep read readv restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn
sched_yield sigaltstack time times write writev
"""
# Allowed where one argument, by its position, has one value: is this open file a terminal, and what
# kind of file is it (glibc's fstat)?
_TCGETS, _AT_EMPTY_PATH = 0x5401, 0x1000
_ALLOWED_WITH = {"ioctl": (1, _TCGETS), "newfstatat": (3, _AT_EMPTY_PATH)}

# linux/prctl.h, seccomp.h
_PR_SET_PDEATHSIG = 1
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_EQUAL = 4

# Standard streams, a link, and some to spare.
_MOST_FILES = 16


class _Argument(ctypes.Structure):
    """What an argument is compared with: `struct scmp_arg_cmp` of seccomp.h."""

    _fields_ = (
        ("position", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("unused", ctypes.c_uint64),
    )


def confine(parent: int, memory_bytes: int, cpu_s: int, output_bytes: int) -> None:
    """Give up, for good, all that a program does not need. Raises OSError where that fails.

    The process dies with its `parent` and of `cpu_s` seconds of processor time, can map
    `memory_bytes` in all, and makes no open file larger than `output_bytes`.
    """
    # It fails for a number that is no signal alone.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the sandbox has ended")
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, output_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _MOST_FILES),
    ):
        # None may be raised, where less is allowed here.
        _, most = resource.getrlimit(kind)
        allowed = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(kind, (allowed, allowed))
    _install_filter()


def _install_filter() -> None:
    """Have the kernel refuse all calls but those listed, also by way of another architecture."""
    rules = ctypes.c_void_p(_SECCOMP.seccomp_init(_REFUSE))

    def allow(name: str, *arguments: _Argument) -> None:
        number = _SECCOMP.seccomp_syscall_resolve_name(name.encode())
        listed = (_Argument * len(arguments))(*arguments)
        _SECCOMP.seccomp_rule_add_array(rules, _ALLOW, number, len(arguments), listed)

    for name in _ALLOWED.split():
        allow(name)
    for name, (position, value) in _ALLOWED_WITH.items():
        allow(name, _Argument(position, _EQUAL, value))
    if (error := -_SECCOMP.seccomp_load(rules)) != 0:
        raise OSError(error, "the kernel takes no seccomp filter")
