"""Hostile programs. Those of `ATTEMPTS` print `harm` where they do what they try.

`{home}` is a directory with a file `canary`, which holds `canary`; `{tcp}` and `{udp}` are ports
and `{unix}` a socket that listen; `{victim}` is a process.
"""

ATTEMPTS = {
    "read a file": "print('harm' if open('{home}/canary').read() else '')",
    "list a directory": "import os\nprint('harm' if os.listdir('{home}') else '')",
    "look for a file": "import os\nos.stat('{home}/canary')\nprint('harm')",
    "read the parent's environment": (
        "import os\nprint('harm' if open(f'/proc/{{os.getppid()}}/environ', 'rb') else '')"
    ),
    "read the parent's memory": (
        "import os\nprint('harm' if open(f'/proc/{{os.getppid()}}/mem', 'rb') else '')"
    ),
    "write a file in home": "open('{home}/new', 'w').write('x')\nprint('harm')",
    "write a file in /tmp": (
        "import tempfile\nwith tempfile.NamedTemporaryFile(dir='/tmp') as f:\n"
        "    f.write(b'x')\nprint('harm')"
    ),
    "write a file here": "import os\nopen('new', 'w').write('x')\nos.remove('new')\nprint('harm')",
    "remove a file": "import os\nos.remove('{home}/canary')\nprint('harm')",
    "rename a file": "import os\nos.rename('{home}/canary', '{home}/new')\nprint('harm')",
    "follow a link": (
        "import os\nos.symlink('{home}/canary', '{home}/link')\n"
        "open('{home}/link', 'w').write('x')\nprint('harm')"
    ),
    "make a hard link": "import os\nos.link('{home}/canary', '{home}/new')\nprint('harm')",
    "make a directory": "import os\nos.mkdir('{home}/new')\nprint('harm')",
    "change a mode": "import os\nos.chmod('{home}/canary', 0)\nprint('harm')",
    "empty a file": "import os\nos.truncate('{home}/canary', 0)\nprint('harm')",
    "make a pipe": "import os\nos.mkfifo('{home}/new')\nprint('harm')",
    "fill the input": "import os\nos.write(0, b'x' * 10**6)\nprint('harm')",
    "fill memory beside its own": (
        "import os\nf = os.memfd_create('x')\nos.write(f, b'x' * 10**6)\nprint('harm')"
    ),
    "connect by TCP": (
        "import socket\nsocket.create_connection(('127.0.0.1', {tcp}))\nprint('harm')"
    ),
    "send by UDP": (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.sendto(b'x', ('127.0.0.1', {udp}))\nprint('harm')"
    ),
    "connect to a local socket": (
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{unix}')\nprint('harm')"
    ),
    "fork": "import os\nif os.fork() == 0: os._exit(0)\nprint('harm')",
    "start a shell": (
        "import subprocess\nprint('harm' if subprocess.run(['true']).returncode == 0 else '')"
    ),
    "become another program": "import os\nos.execv('/bin/echo', ['echo', 'harm'])",
    "outlive its judge": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        time.sleep(1)\n    os._exit(0)\nprint('harm')"
    ),
    "start a thread": (
        "import _thread, time\n_thread.start_new_thread(print, ('harm',))\ntime.sleep(1)"
    ),
    "kill a process": "import os\nos.kill({victim}, 9)\nprint('harm')",
    "ask about a process": "import os\nos.kill({victim}, 0)\nprint('harm')",
    "trace a process": (
        "import ctypes\nif ctypes.CDLL(None).ptrace(16, {victim}, 0, 0) == 0: print('harm')"
    ),
    "have more memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nprint('harm')"
    ),
    "outlive its parent": "import ctypes\nif ctypes.CDLL(None).prctl(1, 0) == 0: print('harm')",
    "go to another directory": "import os\nos.chdir('{home}')\nprint('harm')",
    "open a file past Python": (
        "import ctypes\nif ctypes.CDLL(None).open(b'{home}/canary', 0) >= 0: print('harm')"
    ),
    "open a file past the C library": (
        "import ctypes\nif ctypes.CDLL(None).syscall(257, -100, b'{home}/canary', 0) >= 0:\n"
        "    print('harm')"
    ),
}

# They go on until they are ended. `True`: that takes all the time that they have.
ENDLESS = {
    "a loop": ("while True: pass", True),
    "sleep that ignores signals": (
        "import signal, time\nfor n in set(range(1, 65)) - {9, 19, 32, 33}:\n"
        "    signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        True,
    ),
    "a loop that catches everything": (
        "import signal\nsignal.signal(signal.SIGXCPU, lambda *_: None)\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        True,
    ),
    "a loop in C": ("10**10**10", True),
    "a loop at its end": (
        "import atexit\n@atexit.register\ndef end():\n    while True: pass",
        True,
    ),
    "a loop behind a closed output": ("import os\nos.close(1)\nwhile True: pass", True),
    "output": ("while True: print('x' * 10**6)", False),
    "output of errors": ("import sys\nwhile True: sys.stderr.write('x' * 10**6)", True),
    "memory": ("x = []\nwhile True: x.append(bytearray(10**7))", False),
    "one block of memory": ("x = bytearray(10**12)", False),
    "recursion": ("def f(): return f()\nf()", False),
    "recursion in C": (
        "import sys\nsys.setrecursionlimit(10**9)\nx, y = [], []\n"
        "for _ in range(10**5): x, y = [x], [y]\nx == y",
        False,
    ),
    # getpid of 32-bit x86, which has another number there.
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
    "a bomb of threads": (
        "import _thread, time\nwhile True:\n"
        "    try: _thread.start_new_thread(time.sleep, (99,))\n    except RuntimeError: pass",
        True,
    ),
    "a bomb of files": (
        "import os\nwhile True:\n    try: os.dup(0)\n    except OSError: pass",
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
        "while True: os.write(3, struct.pack('Q', len(reply)) + reply)"
    ),
    "a reply without end": (
        "import os, struct\nos.write(3, struct.pack('Q', 2**60))\n"
        "while True: os.write(3, b'x' * 999)"
    ),
    "a reply too deep": (
        "import os, struct\nreply = b'[' * 10**6\nos.write(3, struct.pack('Q', len(reply)) + reply)"
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
