"""Programs to be judged: hostile, endless, cheating and honest ones, and tests of theirs."""

# One of each kind, without its end: that no other call of the system is allowed is a test of its
# own. `{home}` is a directory with a file `canary`; `{tcp}` is a port that listens; `{victim}` is a
# process.
ATTEMPTS = """
try: print(open('{home}/canary').read())

try: print('harm' if open(f'/proc/{{__import__("os").getppid()}}/mem', 'rb') else '')

import os
try: print('harm', os.remove('{home}/canary'))

import os
try: print('harm', os.write(0, b'x' * 10**6))

import socket
try: print('harm', socket.create_connection(('127.0.0.1', {tcp})))

import os, time
try:
    if os.fork() == 0: os.setsid(); time.sleep(1)
    print('harm')

import _thread, time
try: print('harm', _thread.start_new_thread(print, ('harm',)), time.sleep(1))

import os
try: print('harm', os.kill({victim}, 9))

import resource
try: print('harm', resource.setrlimit(resource.RLIMIT_AS, (-1, -1)))
"""
# Prints the numbers of the calls of the system that are not refused, of all but `{allowed}`.
EVERY_CALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for number in set(range(600)) - {allowed}:
    ctypes.set_errno(0)
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        print(number)
print('tried')
"""

# They go on until they are ended. `True`: that takes all the time that they have.
ENDLESS = {
    "a loop": ("while True: pass", True),
    "sleep that ignores signals": (
        "import signal, time\nfor n in set(range(1, 65)) - {9, 19, 32, 33}:\n"
        "    signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        True,
    ),
    "a loop at its end": (
        "import atexit\n@atexit.register\ndef end():\n    while True: pass",
        True,
    ),
    "output": ("while True: print('x' * 10**6)", False),
    "memory": ("x = []\nwhile True: x.append(bytearray(10**7))", False),
    "calls of another architecture": (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(bytes.fromhex('b814000000cd80c3'))\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "print(int(ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0))",
        False,
    ),
}

# None computes `f`, and each would pass for it if its judge were less careful.
CHEATS = {
    "an early end": "import os\nos._exit(0)",
    "an end when asked": "import os\ndef f(x):\n    os._exit(0)",
    "an exit at the end": "import atexit, os\natexit.register(os._exit, 0)",
    "the word of a judge": "print('passed', flush=True)\nimport os\nfor file in range(4):\n"
    "    try: os.write(file, b'passed')\n    except OSError: pass\nos._exit(0)",
    "a number that equals all": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def f(x): return Any()"
    ),
    "no asserts": (
        "import builtins\nbuiltins.AssertionError = StopIteration\n"
        "builtins.abs = builtins.all = lambda *_: 0\nabs = lambda *_: 0\ndef f(x): return 1.5"
    ),
    "an end of the loop": "def f(x):\n    raise StopIteration",
    "a forged reply": (
        "import os, struct\nreply = b'{\"value\": true}'\n"
        "while True: os.write(3, struct.pack('!i', len(reply)) + reply)"
    ),
    "a reply without end": (
        "import os, struct\nos.write(3, struct.pack('!iQ', -1, 2**60))\n"
        "while True: os.write(3, b'x' * 999)"
    ),
    "a reply too deep": (
        "import os, struct\nreply = b'[' * 10**6\n"
        "os.write(3, struct.pack('!i', len(reply)) + reply)"
    ),
    "a search for the answer": (
        "import gc, os, sys\n"
        "def f(x=None):\n"
        "    seen = [str(x) for x in gc.get_objects() if isinstance(x, (str, dict, list))]\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        seen.append(str({**frame.f_locals, 'seen': 0}))\n        frame = frame.f_back\n"
        "    text = ' '.join([*seen, str(os.environ), str(sys.argv)])\n"
        "    at = text.find('secret' + '-')\n"
        "    return text[at:at + 11] if at >= 0 else ''\n"
        "print(f())"
    ),
}
# Tests that no cheat passes.
UNFOOLED = (
    "import math\nassert math.isclose(f(3), 7391.25)",
    "assert all(got == 7391 for got in map(f, [1, 2]))",
    "for got, want in zip(map(f, [1]), [7391]):\n    assert got == want",
    "def check(candidate):\n    assert candidate(1) == ['secret-7391']\ncheck(f)",
    "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass",
)

# Each adds two numbers.
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
    "modules": (
        "import bisect, collections, datetime, decimal, fractions, functools, heapq, itertools\n"
        "import math, random, re, statistics, string, time\nfrom typing import List\n"
        "random.shuffle([1, 2])\ntime.sleep(0.001)\ndatetime.datetime.strptime('1', '%d')\n"
        "print(decimal.Decimal(math.comb(7, 1)))"
    ),
}
# A program, and tests that it passes.
LIBRARIES = {
    "arguments": (
        "def f(a, b=1): return a + b",
        "assert f(1) == 2\nassert f(1, b=2**70) == 2**70 + 1",
    ),
    "values": (
        "def f(x): return x",
        "from collections import deque\nfrom decimal import Decimal\n"
        "from fractions import Fraction\n"
        "for x in (None, True, 1.5, -1, 'ä\\ud800', b'\\0', (1, (2,)), [[]], {1}, {(1, 2): [3]},\n"
        "        1j, {}, frozenset({2}), float('inf'), Fraction(1, 3), Decimal('0.10'),\n"
        "        deque([1])):\n"
        "    assert f(x) == x and type(f(x)) is type(x)",
    ),
    "values of other types": (
        "from collections import Counter, namedtuple\nP = namedtuple('P', 'a b')\n"
        "def f(x): return Counter(x)\ndef g(): return P(1, 2)\n"
        "def h(n):\n    yield from range(n)\ndef k(x): return {i: 2 * i for i in x}.keys()",
        "assert f('aab') == {'a': 2, 'b': 1}\nassert g() == (1, 2)\n"
        "assert list(h(3)) == [0, 1, 2]\nassert sorted(k([2, 1])) == [1, 2]",
    ),
    "an object": (
        "class Stack:\n    size = 0\n    def __init__(self, *items): self.items = list(items)\n"
        "    def push(self, x): self.items.append(x); self.size = len(self.items)\n"
        "    def pop(self): return self.items.pop()\ndef top(stack): return stack.items[-1]",
        "s = Stack(1)\ns.push(5)\nassert s.size == 2\nassert top(s) == 5\nassert s.pop() == 5\n"
        "assert s.items == [1]",
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
