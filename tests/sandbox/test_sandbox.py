"""Programs that nobody has read: none harms, none cheats, none costs more than its limit."""

import ctypes
import os
import platform
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.sandbox.judging import Limits, Sandbox
from tests.sandbox.programs import (
    ATTEMPTS,
    CHEATS,
    ENDLESS,
    EVERY_CALL,
    LIBRARIES,
    SCRIPTS,
    UNFOOLED,
)

LIMITS = Limits(seconds=10.0, memory_bytes=1 << 30)
SHORT = Limits(seconds=0.4, memory_bytes=256 << 20)
# What ending a program may take besides its time, on a machine that is busy with others.
OVERHEAD_S = 2.0


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    # PR_SET_CHILD_SUBREAPER (linux/prctl.h): what outlives its parent comes here.
    ctypes.CDLL(None).prctl(36, 1)
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()
    ctypes.CDLL(None).prctl(36, 0)


def prints(sandbox: Sandbox, program: str, wanted: str, limits: Limits = LIMITS) -> bool:
    return sandbox.passes(program, {"pairs": [["", wanted]]}, limits)


def asserts(sandbox: Sandbox, program: str, source: str, limits: Limits = LIMITS) -> bool:
    return sandbox.passes(program, {"asserts": source}, limits)


def processes(parent: int | None = None) -> set[int]:
    """The processes that came of `parent`, this one by default, and are still there."""
    parent = parent or os.getpid()
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return set()
    return {int(child) for child in children}.union(*(processes(int(c)) for c in children))


def test_what_a_program_tries_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("canary")
    before = processes()
    victim = subprocess.Popen(["sleep", "600"])
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        tcp.setblocking(False)
        place = {"home": tmp_path, "tcp": tcp.getsockname()[1], "victim": victim.pid}
        for attempt in ATTEMPTS.format(**place).strip().split("\n\n"):
            # An import that fails, or harm that is done, would not print this.
            assert prints(
                sandbox, f"{attempt}\nexcept (OSError, RuntimeError, ValueError): print('no')", "no"
            )
        with pytest.raises(BlockingIOError):
            tcp.accept()
    assert victim.poll() is None
    victim.kill()
    victim.wait()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"canary": "canary"}
    assert processes() == before


# Calls that touch nothing but the process itself: memory, signals, time, open files.
HARMLESS = {
    "x86_64": {
        *(0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 24, 25, 28, 35, 39, 60, 96, 98, 100),
        *(102, 104, 107, 108, 110, 131, 186, 201, 202, 219, 228, 229, 230, 231, 318),
    },
    "aarch64": {
        *(62, 63, 64, 65, 66, 57, 80, 93, 94, 98, 101, 113, 114, 115, 124, 128, 132, 134, 135, 139),
        *(153, 165, 169, 172, 173, 174, 175, 176, 177, 178, 214, 215, 216, 222, 226, 233, 278),
    },
}


def test_no_other_call_of_the_system_is_allowed(sandbox: Sandbox) -> None:
    # Those of probes (uprobe, uretprobe) end a program that is none, before any filter.
    allowed = HARMLESS[platform.machine()] | {335, 336}
    assert prints(sandbox, EVERY_CALL.format(allowed=allowed), "tried")


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "script") for name in ENDLESS), ("a loop", "library")]
)
def test_a_program_without_end_costs_its_limit(name: str, form: str, sandbox: Sandbox) -> None:
    program, takes_all = ENDLESS[name]
    judge, wanted = (prints, "1") if form == "script" else (asserts, "assert f(1) == 2")
    limits = SHORT if takes_all else replace(SHORT, seconds=20.0)
    before, began = processes(), time.monotonic()
    assert not judge(sandbox, program, wanted, limits)
    took = time.monotonic() - began
    # What another limit than that of time ends is ended before.
    assert took < (SHORT.seconds + OVERHEAD_S if takes_all else limits.seconds / 2)
    assert took >= SHORT.seconds or not takes_all or form == "library"
    assert processes() == before
    assert prints(sandbox, "print(1)", "1")


@pytest.mark.parametrize("name", CHEATS)
def test_nothing_but_the_answer_passes(name: str, sandbox: Sandbox) -> None:
    assert not prints(sandbox, CHEATS[name], "secret-7391", SHORT)
    for source in UNFOOLED:
        assert not asserts(sandbox, CHEATS[name], source, SHORT), source


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_honest_script_passes(name: str, sandbox: Sandbox) -> None:
    assert sandbox.passes(SCRIPTS[name], {"pairs": [["3 4\n", "7\n"]]}, LIMITS)
    assert not sandbox.passes(SCRIPTS[name], {"pairs": [["3 4\n", "8\n"]]}, LIMITS)


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_honest_library_passes(name: str, sandbox: Sandbox) -> None:
    program, source = LIBRARIES[name]
    assert asserts(sandbox, program, source)
    assert not asserts(sandbox, program, source + "\nassert 1 == 2")
    assert not asserts(sandbox, "", source)


def test_every_test_counts_and_white_space_at_ends_does_not(sandbox: Sandbox) -> None:
    program = "x = input()\nprint(x, ' \\n' + x if x != '3' else '', '')"
    assert sandbox.passes(program, {"pairs": [["1", "1\n1"], ["2", "2  \n2\n\n"]]}, LIMITS)
    assert not sandbox.passes(program, {"pairs": [["1", "1\n1"], ["3", "3\n3"]]}, LIMITS)
    assert not prints(sandbox, "print(1)\nprint(1)", "1 1")
    assert not prints(sandbox, "print(' 1')", "1")


@pytest.mark.parametrize("end", ["1 / 0", "import os\nos._exit(3)", "import os\nos.abort()"])
def test_what_fails_after_its_answer_does_not_pass(end: str, sandbox: Sandbox) -> None:
    assert not prints(sandbox, f"print(1, flush=True)\n{end}", "1")
    # Of a program's tests too; one that ends before they call it is not waited for.
    began = time.monotonic()
    assert not asserts(sandbox, "def f(x): return x", f"assert f(1) == 1\n{end}".replace("3", "0"))
    assert not asserts(sandbox, end, "assert f(1) == 1")
    assert time.monotonic() - began < LIMITS.seconds / 2


def test_the_time_is_that_of_all_tests_together(sandbox: Sandbox) -> None:
    program, began = "import time\ntime.sleep(0.4)\nprint(1)", time.monotonic()
    limits = replace(LIMITS, seconds=1.0)
    assert not sandbox.passes(program, {"pairs": [["", "1"]] * 10}, limits)
    assert time.monotonic() - began < 1 + OVERHEAD_S
    assert prints(sandbox, program, "1")

    program, given, wanted = (f"{w}-{os.getpid()}-7391" for w in ("program", "input", "answer"))
    for tests in ({"pairs": [[given, wanted]]}, {"asserts": f"assert f({given!r}) == {wanted!r}"}):
        assert not sandbox.passes(f"'{program}'\ndef f(x): return x\nprint(input())", tests, LIMITS)
    memory = b"".join(readable(sandbox.server.pid))
    assert b"isosweep.sandbox" in memory
    assert not [word for word in (program, given, wanted) if word.encode() in memory]


def test_programs_are_the_first_to_go_where_memory_runs_out(sandbox: Sandbox) -> None:
    assert Path(f"/proc/{sandbox.server.pid}/oom_score_adj").read_text() == "1000\n"


def readable(pid: int) -> Iterator[bytes]:
    """What a process has in its own memory."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, mode, *_ = line.split()
            if mode.startswith("rw"):
                start, end = (int(part, 16) for part in where.split("-"))
                memory.seek(start)
                yield memory.read(end - start)


def test_programs_end_with_their_server() -> None:
    before, sandbox = processes(), Sandbox()
    with ThreadPoolExecutor(1) as pool:
        judged = pool.submit(prints, sandbox, "import time\ntime.sleep(30)", "1")
        while not processes(sandbox.server.pid):
            time.sleep(0.01)
        began = time.monotonic()
        os.kill(sandbox.server.pid, signal.SIGKILL)
        assert isinstance(judged.exception(), ConnectionError)
    sandbox.close()
    (orphan,) = processes() - before
    # By the kernel, or by itself where it was not confined yet.
    assert os.waitstatus_to_exitcode(os.waitpid(orphan, 0)[1]) in (-signal.SIGKILL, 1)
    assert time.monotonic() - began < LIMITS.seconds
