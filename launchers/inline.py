"""Runs in this very process, one after another: for debuggers and notebooks."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.liveness import observe_process
from isosweep.store.attempts import Attempt, LauncherName, Process
from isosweep.training.stopping import StopRequest

# What a worker handles in its own way (`training.stopping`).
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


class InlineLauncher(Launcher):
    """Executes each run within `submit`, with the files and records of a worker of its own.

    It prints to the terminal. Ctrl-C writes a checkpoint, as it does to a worker, and then ends
    the sweep; a second one ends the process amid the step.
    """

    name: LauncherName = "inline"
    detaches = False
    places = True
    poll_s = 0.25

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Execute the runs; a signal that one has obeyed is raised again after it."""
        for order in orders:
            _execute(order)
        return [None] * len(orders)

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """Ended, if they were this process's: it does nothing else while a run executes."""
        this = Process.this()
        return [
            Observed(status="ended") if this in (each.by, each.worker) else observe_process(each)
            for each in attempts
        ]

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Nothing is left to be stopped when this can be called."""
        return None


def _execute(order: Order) -> None:
    from isosweep.training.attempt import main

    stop = StopRequest()
    with _process_kept():
        main([str(order.attempt.path)], stop)
    for asked in {signal.SIGINT, signal.SIGTERM}.intersection(stop.signals):
        # Who follows the sweep is to know of it too; nobody: KeyboardInterrupt, or the end.
        signal.raise_signal(asked)


@contextmanager
def _process_kept() -> Iterator[None]:
    """Put back what a worker changes of its process."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    environment = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        for number, handler in before.items():
            signal.signal(number, handler)
