"""Runs a command that ends when its worker does, with all that it started.

    python -I -S tied.py PARENT WORD...

Signals to its process group reach the command, and leave this process to wait for it. Whatever
kills the worker PARENT, the group is killed soon after: its next attempt has the devices to itself.
"""

import os
import signal
import subprocess
import sys
import time

_POLL_S = 0.2


def main(parent: int, words: list[str]) -> int:
    """The command's exit status; 128 + the signal's number where one ended it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        # Not ignored: the command would inherit that.
        signal.signal(number, lambda *_: None)
    try:
        command = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return 127
    while command.poll() is None:
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        time.sleep(_POLL_S)
    status = command.returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
