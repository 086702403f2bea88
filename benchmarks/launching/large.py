"""What a sweep directory of many runs costs those who read it, each in a process of its own.

python benchmarks/launching/large.py {status,pass,redraw,load} SWEEP_DIRECTORY
"""

import io
import json
import os
import resource
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Passes and pictures that are timed, after one that is not.
_TIMES = 7
# Seconds between two passes, by the queue's clock: each looks at the heartbeats of all. Between two
# pictures: half a second, in which of workers that write every 5 s a tenth does.
_PASSES_S, _PICTURES_S, _SHARE = 20.0, 1.0, 10


def table(root: Path, runs: int) -> dict[str, float]:
    """Print seconds and peak memory of each way to read a sweep of `runs` runs; the seconds."""
    from directory import Sizes, write_directory

    sizes = Sizes(runs=runs, done=runs // 2, failed=max(1, runs // 500), live=runs // 5)
    paths = write_directory(root, sizes)[1]
    told = f"{sizes.done:,} done, {sizes.failed:,} failed, {sizes.live:,} live"
    print(f"a sweep directory of {runs:,} runs: {told}, the others not begun")
    print(f"{'':34}{'seconds':>9}{'CPU':>9}{'peak MB':>9}")
    figures = {}
    for name, what in (
        ("status", "mode=status, the whole command"),
        ("pass", "pass of a driver"),
        ("redraw", "redraw of its progress"),
        ("load", "load for the analysis"),
    ):
        seconds, cpu, peak = min(_part(name, paths.root) for _ in range(3))
        print(f"{what:34}{seconds:9.3f}{cpu:9.3f}{peak / 1e3:9,.0f}")
        figures[name] = cpu if name == "redraw" else seconds
    return figures


def _part(name: str, sweep: Path) -> tuple[float, float, float]:
    """Seconds, seconds of CPU, and peak kB; those of a status are the whole process's."""
    command = [sys.executable, str(Path(__file__).resolve()), name, str(sweep)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # An installed package has its bytecode.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    whole, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    *figures, peak = map(float, done.stdout.splitlines()[-1].split())
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds, cpu = figures or (whole, used)
    return seconds, cpu, peak


def status(root: Path) -> str:
    """Print how the sweep stands."""
    sys.argv = ["isosweep", "mode=status", f"sweep={root}"]
    with suppress(SystemExit):
        runpy.run_module("isosweep", run_name="__main__")
    return ""


def _peak_kb() -> int:
    """Peak memory of this program: what `getrusage` tells began with its parent's."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


def _timed(task: Callable[[], Any], between: Callable[[], Any], times: int) -> str:
    """Median seconds and seconds of CPU of `task`."""
    seconds, cpu = [], []
    for _ in range(times):
        between()
        began = time.perf_counter(), time.process_time()
        task()
        seconds.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    own = slice(1 if times > 1 else 0, None)
    return f"{statistics.median(seconds[own])} {statistics.median(cpu[own])}"


def load(root: Path) -> str:
    """Time the load of all records."""
    from isosweep.analysis.load import load_sweep
    from isosweep.store.paths import SweepPaths

    paths = SweepPaths(root, root.parent / "runs")
    return _timed(lambda: load_sweep(paths), lambda: None, times=1)


def follow(root: Path, *, drawn: bool) -> str:
    """Time the passes of a driver that has no place left, or the pictures that it draws (`drawn`),
    while workers of live runs write heartbeats."""
    from rich.console import Console

    from isosweep.launchers.local import LocalLauncher
    from isosweep.launchers.queue import RunQueue
    from isosweep.modes.follow import DrivenSweep
    from isosweep.modes.progress import Progress

    study, paths = _stored(root)
    sweep = DrivenSweep(study=study, paths=paths)
    items = sweep.items()
    live = [item for item in items if _is_live(item.paths)]
    clock = {"now": 0.0}

    def beat() -> None:
        clock["now"] += _PICTURES_S if drawn else _PASSES_S
        for item in live[:: _SHARE if drawn else 1]:
            path = item.paths.attempt(1)
            document = json.loads(path.read_text())
            new = path.with_name(".new")
            new.write_text(json.dumps(document | {"step": document["step"] + 1}))
            new.replace(path)

    with patch("time.monotonic", lambda: clock["now"]):
        launcher = LocalLauncher(devices=None)
        queue = RunQueue(items, launcher, max_parallel=len(live), max_retries=0)
        queue.step()
        assert len(queue.attempts) == len(live)
        if not drawn:
            return _timed(queue.step, beat, _TIMES)
        console = Console(file=io.StringIO(), force_terminal=True, width=120)
        progress = Progress(study.plan, paths, study.config.health.stop, console)

        def draw() -> None:
            progress.update(queue.attempts, {})
            # What its thread does within half a second.
            progress._bars.refresh()

        def meanwhile() -> None:
            beat()
            queue.step()

        figures = _timed(draw, meanwhile, _TIMES)
        progress.stop()
        return figures


def _stored(root: Path) -> tuple[Any, Any]:
    """The stored sweep's study and files."""
    from isosweep.config.compose import config_of
    from isosweep.modes.sweeps import stored_sweep

    sweep = stored_sweep(config_of([f"sweep={root}"]))
    return sweep.study(), sweep.paths


def _is_live(run: Any) -> bool:
    from isosweep.store.attempts import newest

    attempt = newest(run)
    return attempt is not None and attempt.live


if __name__ == "__main__":
    part, directory = sys.argv[1], Path(sys.argv[2])
    match part:
        case "status":
            figures = status(directory)
        case "load":
            figures = load(directory)
        case _:
            figures = follow(directory, drawn=part == "redraw")
    print(figures, _peak_kb())
