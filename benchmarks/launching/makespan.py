"""How long a mixed sweep takes over the least that it could, longest runs first."""

import heapq
import itertools
import json
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from isosweep.config.sweep import SweepConfig
from isosweep.launchers.launcher import Launcher, Observed, Order, QueueItem, Refused
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.queue import RunQueue
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.modes.run_files import store_runs
from isosweep.plan.cells import predicted
from isosweep.plan.scheduling import makespan_bound
from isosweep.store.attempts import Attempt, LauncherName, begin, newest
from isosweep.store.paths import RunPaths
from launching.keep_state import keep_state
from launching.sweeps import KEEP_STATE, Clock, finish, make_sweep, memory, on_slurm

# Predicted hours of the runs, log-uniform: what the budgets of one sweep make of them.
_HOURS = (1.0, 12.0)
# Of a simulation: how often in it the queue looks, which is at its real pace every 0.25 s.
_LOOKS = 4000


def mixed(items: Sequence[QueueItem], seed: int) -> list[QueueItem]:
    """The items, predicted to take anything between `_HOURS`."""
    chance = random.Random(seed)
    low, high = (math.log(3600 * hours) for hours in _HOURS)
    # A sleeping worker is not stuck.
    return [
        replace(
            item,
            run=replace(item.run, seconds=math.exp(chance.uniform(low, high))),
            stuck_after_s=1e9,
        )
        for item in items
    ]


class Devices:
    """A launcher on which runs take the time that they are to, by a clock that is set."""

    name: LauncherName = "none"
    detaches = False
    places = True
    poll_s = math.inf
    max_batch = 1000

    def __init__(self, seconds: dict[str, float], clock: Clock) -> None:
        self._seconds, self._clock = seconds, clock
        self._running: list[tuple[float, int, Attempt]] = []
        self._count = itertools.count()

    def devices(self, place: int) -> tuple[str, ...]:
        """None."""
        return ()

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Each begins at once."""
        for order in orders:
            end = self._clock.now + self._seconds[order.run.run_id]
            heapq.heappush(self._running, (end, next(self._count), order.attempt))
        return [None] * len(orders)

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """They run."""
        return [Observed(status="running")] * len(attempts)

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Nobody asks for that."""

    def pass_until(self, now: float) -> None:
        """Let time pass, and runs end: until `now`, or the first end after it."""
        now = max(now, self._running[0][0] if self._running else now)
        self._clock.now = now
        while self._running and self._running[0][0] <= now:
            finish(begin(heapq.heappop(self._running)[2], None))


def simulated(runs: int, devices: int, error: float = 0.0) -> float:
    """The makespan of `runs` runs on `devices` devices over its bound.

    `error`: standard deviation of the logarithm of what runs take over what is predicted.
    """
    chance = random.Random(1)
    with memory() as directory, patch("time.monotonic", Clock()) as clock:
        sweep = make_sweep(directory, runs)
        store_runs(sweep.study, sweep.paths)
        items = mixed(sweep.items(), seed=0)
        seconds = {
            item.run.run_id: predicted(item.run.seconds) * math.exp(chance.gauss(0.0, error))
            for item in items
        }
        bound = makespan_bound(list(seconds.values()), devices)
        launcher = Devices(seconds, clock)
        queue = RunQueue(items, launcher, max_parallel=devices, max_retries=0)
        while queue.busy:
            queue.step()
            launcher.pass_until(clock.now + max(queue.pause_s, bound / _LOOKS))
        return clock.now / bound


def real(items: Sequence[QueueItem], launcher: Launcher, places: int) -> float:
    """The same of real processes, which sleep."""
    began = time.time()
    queue = RunQueue(items, launcher, max_parallel=places, max_retries=0, notice=print)
    while queue.busy:
        queue.step()
        time.sleep(queue.pause_s)
    if queue.failed:
        raise RuntimeError(next(iter(queue.failed.values())))
    took = time.time() - began
    return took / makespan_bound([_lasted(item.paths) for item in items], places)


def _lasted(run: RunPaths) -> float:
    """Seconds from the start of the process of a run's job to its last word."""
    attempt = newest(run)
    assert attempt is not None
    assert attempt.worker is not None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    started = time.time() - uptime + (attempt.worker.start or 0) / os.sysconf("SC_CLK_TCK")
    return attempt.updated - started


class KeepsState(LocalLauncher):
    """Its processes only keep the state of their runs."""

    execute = staticmethod(keep_state)


def here(runs: int, places: int, bound_s: float) -> float:
    """The same of processes of this machine, of a sweep that takes `bound_s` at least."""
    with _sweep(runs, places, bound_s) as (items, _):
        return real(items, KeepsState(devices=None), places)


def on_cluster(runs: int, places: int, bound_s: float, *overrides: str) -> float:
    """The same of Slurm's jobs, of which the cluster or `overrides` let `places` run at once."""
    settings = (*on_slurm(KEEP_STATE), *overrides)
    with _sweep(runs, places, bound_s, *settings) as (items, config):
        return real(items, SlurmLauncher(config), places)


@contextmanager
def _sweep(
    runs: int, places: int, bound_s: float, *overrides: str
) -> Iterator[tuple[list[QueueItem], SweepConfig]]:
    """Runs whose predicted hours are seconds: so many that `places` need `bound_s` for them."""
    with memory() as directory:
        sweep = make_sweep(directory, runs, *overrides)
        store_runs(sweep.study, sweep.paths)
        items = mixed(sweep.items(), seed=0)
        scale = bound_s / makespan_bound([predicted(item.run.seconds) for item in items], places)
        seconds = {item.run.run_id: predicted(item.run.seconds) * scale for item in items}
        table = directory / "seconds.json"
        table.write_text(json.dumps(seconds))
        with patch.dict(os.environ, {"ISOSWEEP_BENCH_SECONDS": str(table)}):
            yield items, sweep.study.config
