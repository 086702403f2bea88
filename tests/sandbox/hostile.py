"""Hostile programs. Those of `ATTEMPTS` print `harm` where they do what they try.

`{home}` is a directory with a file `canary`, which holds `canary`; `{tcp}` is a port that listens;
`{victim}` is a process.
"""

# One of each kind: that no other call of the system is allowed is a test of its own.
ATTEMPTS = {
    "read a file": "print('harm' if open('{home}/canary').read() else '')",
    "read the parent's memory": (
        "import os\nprint('harm' if open(f'/proc/{{os.getppid()}}/mem', 'rb') else '')"
    ),
    "write a file": "open('{home}/new', 'w').write('x')\nprint('harm')",
    "remove a file": "import os\nos.remove('{home}/canary')\nprint('harm')",
    "fill the input": "import os\nos.write(0, b'x' * 10**6)\nprint('harm')",
    "connect by TCP": (
        "import socket\nsocket.create_connection(('127.0.0.1', {tcp}))\nprint('harm')"
    ),
    "start a shell": (
        "import subprocess\nprint('harm' if subprocess.run(['true']).returncode == 0 else '')"
    ),
    "outlive its judge": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        time.sleep(1)\n    os._exit(0)\nprint('harm')"
    ),
    "start a thread": (
        "import _thread, time\n_thread.start_new_thread(print, ('harm',))\ntime.sleep(1)"
    ),
    "kill a process": "import os\nos.kill({victim}, 9)\nprint('harm')",
    "have more memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nprint('harm')"
    ),
}
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
    "a loop behind a closed output": ("import os\nos.close(1)\nwhile True: pass", True),
    "output": ("while True: print('x' * 10**6)", False),
    "memory": ("x = []\nwhile True: x.append(bytearray(10**7))", False),
    "recursion": ("def f(): return f()\nf()", False),
    "calls of another architecture": (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(bytes.fromhex('b814000000cd80c3'))\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "print(int(ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0))",
        False,
    ),
    "a fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        True,
    ),
    "a file that fills the disk": (
        "f = None\nwhile True:\n    try:\n        f = f or open('/tmp/isosweep-filled', 'wb')\n"
        "        f.write(b'x' * 10**6)\n    except OSError: pass",
        True,
    ),
}

# None computes `f`, and each would pass for it if its judge were less careful.
CHEATS = {
    "an early end": "import os\nos._exit(0)",
    "an exit": "import sys\nsys.exit(0)",
    "an exit when asked": "def f(x):\n    raise SystemExit(0)",
    "an end when asked": "import os\ndef f(x):\n    os._exit(0)",
    "an exit at the end": "import atexit, os\natexit.register(os._exit, 0)",
    "the word of a judge": "print('passed', flush=True)\nimport os\nfor file in range(4):\n"
    "    try: os.write(file, b'passed')\n    except OSError: pass\nos._exit(0)",
    "an answer to everything": (
        "class Any:\n    def __eq__(self, other): return True\n    __hash__ = object.__hash__\n"
        "    def __str__(self): return 'all'\n    __repr__ = __str__\n"
        "def f(x): return Any()\nprint(Any())"
    ),
    "a number that equals all": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def f(x): return Any()"
    ),
    "no asserts": (
        "import builtins\nbuiltins.AssertionError = StopIteration\n"
        "builtins.abs = builtins.all = lambda *_: 0\nabs = lambda *_: 0\ndef f(x): return 1.5"
    ),
    "an end of the loop": "def f(x):\n    raise StopIteration",
    "no number": "def f(x): return float('nan')",
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
    "a patched checker": (
        "import isosweep.sandbox.calls as calls, json, os\n"
        "calls.pack = lambda *_: True\njson.dumps = lambda *_: '{\"value\": true}'\n"
        "def f(x): return True"
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
