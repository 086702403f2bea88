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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from isosweep.sandbox.judging import Limits, Sandbox
from tests.sandbox.hostile import ATTEMPTS, CHEATS, ENDLESS, EVERY_CALL

LIMITS = Limits(seconds=10.0, memory_bytes=1 << 30)
SHORT = Limits(seconds=0.4, memory_bytes=256 << 20)
# What ending a program may take besides its time, on a machine that is busy with others.
OVERHEAD_S = 2.0


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


class World:
    """What programs might harm: a home, a socket that listens, a process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "canary").write_text("canary")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.tcp.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "600"])

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.victim.kill()
        self.victim.wait()
        self.tcp.close()

    def names(self) -> dict[str, Any]:
        return {"home": self.home, "tcp": self.tcp.getsockname()[1], "victim": self.victim.pid}

    def harmed(self) -> bool:
        with suppress(BlockingIOError):
            self.tcp.accept()
            return True
        files = {path.name: path.read_text() for path in self.home.iterdir()}
        return self.victim.poll() is not None or files != {"canary": "canary"}


@pytest.fixture(scope="module", autouse=True)
def _orphans_come_here() -> Iterator[None]:
    # PR_SET_CHILD_SUBREAPER (linux/prctl.h)
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1)
    yield
    libc.prctl(36, 0)


def processes() -> set[int]:
    """Servers and programs that came of this process and are still there."""
    parents, servers = {}, set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(stat[1])
                if b"isosweep.sandbox" in (entry / "cmdline").read_bytes():
                    servers.add(int(entry.name))
        except OSError:
            continue

    def is_here(pid: int | None) -> bool:
        return pid == os.getpid() or (pid is not None and is_here(parents.get(pid)))

    return {pid for pid in servers if is_here(pid)}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_what_a_program_tries_is_refused(name: str, sandbox: Sandbox, tmp_path: Path) -> None:
    began = time.monotonic()
    with World(tmp_path) as world:
        program = ATTEMPTS[name].format(**world.names())
        tried = f"try:\n{indent(program, '    ')}\nexcept (OSError, RuntimeError, ValueError): pass"
        # An import that fails, or harm that is done, would not print this.
        assert sandbox.passes(f"{tried}\nprint('no')", {"pairs": [["", "no"]]}, LIMITS)
        assert not world.harmed()
    assert sandbox.passes("print(1)", {"pairs": [["", "1"]]}, LIMITS)
    assert processes() == {sandbox.pid}
    assert time.monotonic() - began < LIMITS.seconds


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
    allowed = HARMLESS[platform.machine()]
    # Those of probes (uprobe, uretprobe) end a program that is none, before any filter.
    program = EVERY_CALL.format(allowed=allowed | {335, 336})
    assert sandbox.passes(program, {"pairs": [["", "tried"]]}, LIMITS)


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "script") for name in ENDLESS] + [("a loop", "library"), ("memory", "library")],
)
def test_a_program_without_end_costs_its_limit(name: str, form: str, sandbox: Sandbox) -> None:
    program, takes_all = ENDLESS[name]
    tests = {"pairs": [["", "1"]]} if form == "script" else {"asserts": "assert f(1) == 2"}
    takes_all = takes_all or form == "library"
    limits = SHORT if takes_all else replace(SHORT, seconds=20.0)
    began = time.monotonic()
    assert not sandbox.passes(program, tests, limits)
    took = time.monotonic() - began
    # What another limit than that of time ends is ended before.
    assert took < (SHORT.seconds + OVERHEAD_S if takes_all else limits.seconds / 2)
    assert took >= SHORT.seconds or not takes_all or form == "library"
    assert processes() == {sandbox.pid}
    assert not Path("/tmp/isosweep-filled").exists()
    assert sandbox.passes("print(1)", {"pairs": [["", "1"]]}, LIMITS)


ASSERTS = (
    "assert f(1) == 'secret-7391'",
    "assert abs(f(3) - 7391.25) < 1e-3",
    "import math\nassert math.isclose(f(3), 7391.25)",
    "assert all(got == 7391 for got in map(f, [1, 2]))",
    "for got, want in zip(map(f, [1]), [7391]):\n    assert got == want",
    "assert list(map(f, [1, 2])) == [7391, 7392]",
    "def check(candidate):\n    assert candidate(1) == [7391]\ncheck(f)",
    "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass",
)


@pytest.mark.parametrize("name", CHEATS)
def test_nothing_but_the_answer_passes(name: str, sandbox: Sandbox) -> None:
    assert not sandbox.passes(CHEATS[name], {"pairs": [["1", "secret-7391"]]}, SHORT)
    for source in ASSERTS:
        assert not sandbox.passes(CHEATS[name], {"asserts": source}, SHORT), source


SCRIPTS = {
    "input": "a, b = map(int, input().split())\nprint(a + b)",
    "a file of the input": "print(sum(map(int, open(0).read().split())))",
    "bytes": (
        "import sys\ndata = sys.stdin.buffer.read()\n"
        "sys.stdout.buffer.write(b'%d' % sum(map(int, data.split())))"
    ),
    "a deeper stack": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**26)\n"
        "def deep(n): return n and 1 + deep(n - 1)\n"
        "def main(): print(sum(map(int, input().split())) + deep(50000) - 50000)\n"
        "thread = threading.Thread(target=main)\nthread.start()\nthread.join()"
    ),
    "output at the end": (
        "import atexit, io, sys\nout = io.StringIO()\nreal, sys.stdout = sys.stdout, out\n"
        "atexit.register(lambda: real.write(out.getvalue()))\n"
        "print(sum(map(int, sys.stdin.readline().split())))"
    ),
    "an exit": "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()",
    "a quit": "print(sum(map(int, input().split())))\nquit()\nprint('more')",
    "modules": (
        "import bisect, collections, datetime, decimal, fractions, functools, heapq, itertools\n"
        "import math, random, re, statistics, string, time\nfrom typing import List\n"
        "random.shuffle([1, 2])\ntime.sleep(0.001)\ndatetime.datetime.strptime('1', '%d')\n"
        "print(decimal.Decimal(math.comb(7, 1)))"
    ),
    "a data class": (
        "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    a: int\n    b: int\n"
        "pair = Pair(*map(int, input().split()))\nprint(pair.a + pair.b)"
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_honest_script_passes(name: str, sandbox: Sandbox) -> None:
    assert sandbox.passes(SCRIPTS[name], {"pairs": [["3 4\n", "7\n"]]}, LIMITS)
    assert not sandbox.passes(SCRIPTS[name], {"pairs": [["3 4\n", "8\n"]]}, LIMITS)


LIBRARIES = {
    "numbers": (
        "def f(a, b=1): return a + b",
        "assert f(1) == 2\nassert f(1, b=2**70) == 2**70 + 1",
    ),
    "a name of a builtin": ("def sum(a, b): return a + b", "assert sum(10, 15) == 25"),
    "values": (
        "def f(x): return x",
        "for x in (None, True, 1.5, -1, 'ä\\ud800', b'\\0', (1, (2,)), [[]], {1}, {(1, 2): [3]},\n"
        "        1j, {}, frozenset({2}), float('inf')):\n"
        "    assert f(x) == x and type(f(x)) is type(x)",
    ),
    "numbers of the library": (
        "from decimal import Decimal\nfrom fractions import Fraction\n"
        "def f(x): return Fraction(x, 3), Decimal(x) / 4",
        "third, quarter = f(2)\nassert 3 * third == 2\nassert float(quarter) == 0.5",
    ),
    "containers of the library": (
        "from collections import deque\ndef f(x): return deque(x)\n"
        "def g(x): return {i: 2 * i for i in x}.keys()",
        "from collections import deque\nassert f([1, 2]) == deque([1, 2])\n"
        "assert list(f('ab')) == ['a', 'b']\nassert sorted(g([2, 1])) == [1, 2]",
    ),
    "an iterator": ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
    "a subclass": (
        "from collections import Counter, namedtuple\nP = namedtuple('P', 'a b')\n"
        "def f(x): return Counter(x)\ndef g(): return P(1, 2)",
        "assert f('aab') == {'a': 2, 'b': 1}\nassert g() == (1, 2)",
    ),
    "an object": (
        "class Stack:\n    size = 0\n    def __init__(self, *items): self.items = list(items)\n"
        "    def push(self, x): self.items.append(x); self.size = len(self.items)\n"
        "    def pop(self): return self.items.pop()\ndef top(stack): return stack.items[-1]",
        "s = Stack(1)\ns.push(5)\nassert s.size == 2\nassert top(s) == 5\nassert s.pop() == 5\n"
        "assert s.items == [1]",
    ),
    "a function of functions": (
        "def f(n): return lambda x: x + n",
        "def check(candidate):\n    assert candidate(2)(3) == 5\ncheck(f)",
    ),
    "an expected error": (
        "def f(x):\n    raise ValueError",
        "try:\n    f(1)\nexcept ValueError:\n    pass\nelse:\n    assert False",
    ),
    "tests that compute": (
        "def f(x): return x ** 0.5",
        "import math\nimport random\nfor _ in range(20):\n    x = random.random()\n"
        "    assert math.isclose(f(x), x ** 0.5)\n    assert abs(f(x) - x ** 0.5) < 1e-9",
    ),
    "prints": (
        "print('!' * 10**6)\ndef f(): print('?'); return 1",
        "print('passed')\nassert f() == 1",
    ),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_honest_library_passes(name: str, sandbox: Sandbox) -> None:
    program, source = LIBRARIES[name]
    assert sandbox.passes(program, {"asserts": source}, LIMITS)
    assert not sandbox.passes(program, {"asserts": source + "\nassert 1 == 2"}, LIMITS)
    assert not sandbox.passes("", {"asserts": source}, LIMITS)


def test_every_test_counts_and_white_space_at_ends_does_not(sandbox: Sandbox) -> None:
    program = "x = input()\nprint(x, ' \\n' + x if x != '3' else '', '')"
    assert sandbox.passes(program, {"pairs": [["1", "1\n1"], ["2", "2  \n2\n\n"]]}, LIMITS)
    assert not sandbox.passes(program, {"pairs": [["1", "1\n1"], ["3", "3\n3"]]}, LIMITS)
    assert not sandbox.passes(program, {"pairs": [["1", "1 1"]]}, LIMITS)
    assert not sandbox.passes("print(' 1')", {"pairs": [["", "1"]]}, LIMITS)


def test_a_program_that_fails_after_its_answer_does_not_pass(sandbox: Sandbox) -> None:
    tests = {"pairs": [["", "1"]]}
    for end in ("1 / 0", "import sys\nsys.exit(1)", "import os\nos.abort()"):
        assert not sandbox.passes(f"print(1, flush=True)\n{end}", tests, LIMITS)


def test_the_time_is_that_of_all_tests_together(sandbox: Sandbox) -> None:
    tests = {"pairs": [["", "1"]] * 10}
    program = "import time\ntime.sleep(0.4)\nprint(1)"
    began = time.monotonic()
    assert not sandbox.passes(program, tests, Limits(seconds=1.0, memory_bytes=1 << 30))
    assert time.monotonic() - began < 1 + OVERHEAD_S
    assert sandbox.passes(program, {"pairs": [["", "1"]]}, LIMITS)


def test_the_server_never_meets_programs_inputs_and_answers(sandbox: Sandbox) -> None:
    words = [f"{word}-{os.getpid()}-7391" for word in ("program", "input", "answer")]
    program, given, wanted = words
    for tests in ({"pairs": [[given, wanted]]}, {"asserts": f"assert f({given!r}) == {wanted!r}"}):
        assert not sandbox.passes(f"'{program}'\ndef f(x): return x\nprint(input())", tests, LIMITS)
    memory = b"".join(readable(sandbox.pid))
    assert b"isosweep.sandbox" in memory
    for word in words:
        assert word.encode() not in memory


def test_programs_are_the_first_to_go_where_memory_runs_out(sandbox: Sandbox) -> None:
    assert Path(f"/proc/{sandbox.pid}/oom_score_adj").read_text() == "1000\n"


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
    before = processes()
    sandbox = Sandbox()
    with ThreadPoolExecutor(1) as pool:
        endless = ("import time\ntime.sleep(300)", {"pairs": [["", "1"]]}, LIMITS)
        judged = pool.submit(sandbox.passes, *endless)
        while len(processes() - before) < 2:
            time.sleep(0.01)
        os.kill(sandbox.pid, signal.SIGKILL)
        assert isinstance(judged.exception(), ConnectionError)
    sandbox.close()
    deadline = time.monotonic() + LIMITS.seconds
    while processes() != before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
