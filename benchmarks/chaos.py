"""Sweeps under faults of all kinds, at random from a seed: `python benchmarks/chaos.py`.

Two sweeps that share runs are followed by drivers that are killed, interrupted, doubled and taken
over, while their workers are killed, stopped and told to leave; at the end both are resumed. Their
records are compared with those of the same sweeps that nothing happened to.

`--launcher local` uses processes of this machine, `--launcher slurm` a Slurm that is started for it
(root, and Slurm's daemons, are needed).
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from goals import Goal, judge, parse

from isosweep.files import read_json
from isosweep.machine import process_start
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.store.state import RunState, view_run
from isosweep.store.submissions import Process

if TYPE_CHECKING:
    from tests.slurm.cluster import SlurmCluster

GOALS = {
    "faults": Goal("faults", "at least", 100.0),
    "runs": Goal("runs under them", "at least", 24.0),
    "unfinished": Goal("runs unfinished", "at most", 0.0),
    "changed": Goal("runs whose records differ", "at most", 0.0),
    "doubled": Goal("records taken twice by one attempt", "at most", 0.0),
    "together": Goal("seconds that two workers of a run were at work", "at most", 15.0),
}
QUICK = {"faults": 40, "seeds": 2}
ROOT = Path(__file__).resolve().parent.parent
# Lets steps take longer, by ISOSWEEP_TEST_STEP_S, so that faults hit runs in their midst.
SLOWLY = ROOT / "tests" / "slowly"
STEP_S = 0.25
# Mean seconds between two faults.
PACE_S = 1.5
# Many times what a resumed sweep of a few tiny runs takes.
PATIENCE_S = 900.0
SETTINGS = (
    "grid.num_generations=[2,4]",
    "grid.problems_per_batch=[4]",
    "grid.tolerance=0.02",
    "evaluation.samples_per_problem=2",
    "task.num_eval_problems=32",
    "analysis.formats=[]",
    "tracking=none",
    # What was trained is kept soon, and no number of kills gives a run up.
    "checkpoint.min_interval_s=2",
    "checkpoint.share=0.5",
    "launcher.max_retries=1000",
    "launcher.max_parallel=6",
    "launcher.stop_grace_s=20",
)


@dataclass
class World:
    """Where the sweeps are, and what has happened to them."""

    directory: Path
    chance: random.Random
    launcher: tuple[str, ...]
    seeds: int
    environment: dict[str, str]
    cluster: "SlurmCluster | None" = None
    drivers: dict[str, list["subprocess.Popen[bytes]"]] = field(
        default_factory=lambda: defaultdict(list)
    )
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    hit: list[tuple[str, RunPaths, float]] = field(default_factory=list)
    wake: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    together: float = 0.0

    @property
    def sweeps(self) -> dict[str, tuple[str, ...]]:
        """The overrides of both: they share half of their seeds, one of them to half the budget."""
        first = ",".join(str(seed) for seed in range(2 * self.seeds))
        second = ",".join(str(seed) for seed in range(self.seeds, 3 * self.seeds))
        return {
            "first": ("budget=6.4e9", f"grid.seeds=[{first}]"),
            "second": ("budget=[6.4e9,1.28e10]", f"grid.seeds=[{second}]"),
        }

    @property
    def runs(self) -> list[RunPaths]:
        """The runs of both sweeps, as far as they have begun."""
        return [RunPaths(path) for path in sorted(self.directory.glob("sweeps/runs/*"))]

    def command(self, sweep: str, mode: str, *overrides: str) -> list[str]:
        """The command line for one of the sweeps."""
        words = [f"mode={mode}", f"sweep_dir={self.directory / 'sweeps' / sweep}", *overrides]
        if mode == "run":
            words += [*self.sweeps[sweep], *SETTINGS, *self.launcher]
        return [sys.executable, "-m", "isosweep", *words]

    def drive(self, sweep: str, *overrides: str) -> None:
        """Start one more driver of a sweep."""
        begun = (self.directory / "sweeps" / sweep / "plan.json").exists()
        command = self.command(sweep, "resume" if begun else "run", *overrides)
        with (self.directory / f"{sweep}.log").open("ab") as log:
            driver = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A shell that started this in the background has switched SIGINT off.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.drivers[sweep].append(driver)

    def living(self, sweep: str) -> list["subprocess.Popen[bytes]"]:
        """Drivers of a sweep that have not ended."""
        self.drivers[sweep] = [d for d in self.drivers[sweep] if d.poll() is None]
        return self.drivers[sweep]

    def workers(self) -> list[tuple[RunPaths, RunState]]:
        """Runs whose newest attempt is at work here, and its state."""
        found = []
        for run in self.runs:
            state = view_run(run).state
            if state and state.status == "running" and at_work(state.process):
                found.append((run, state))
        return found


def at_work(process: Process) -> bool:
    """Whether the process lives and is not stopped."""
    if process_start(process.pid) is None or process.alive() is not True:
        return False
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0] not in "TtZ"
    return False


# -- faults ------------------------------------------------------------------------------------

Fault = Callable[[World], bool]


def to_worker(number: signal.Signals) -> Fault:
    """A signal to some worker."""

    def fault(world: World) -> bool:
        return _worker(world, number) is not None

    return fault


def stopped_worker(world: World) -> bool:
    """A worker stands still for some seconds."""
    pid = _worker(world, signal.SIGSTOP)
    if pid is not None:
        _later(world, pid)
    return pid is not None


def _worker(world: World, number: signal.Signals) -> int | None:
    workers = world.workers()
    if not workers:
        return None
    run, state = world.chance.choice(workers)
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.pid, number)
        world.hit.append((f"worker: {number.name}", run, time.time()))
        return state.pid
    return None


def to_driver(number: signal.Signals) -> Fault:
    """A signal to some driver, with a new driver soon."""

    def fault(world: World) -> bool:
        sweep = world.chance.choice(sorted(world.sweeps))
        drivers = world.living(sweep)
        if not drivers:
            return False
        driver = world.chance.choice(drivers)
        driver.send_signal(number)
        if number is signal.SIGSTOP:
            _later(world, driver.pid)
        return True

    return fault


def _later(world: World, pid: int) -> None:
    """Let a process go on after a while."""

    def go_on() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    world.wake.append((time.monotonic() + world.chance.uniform(1.0, 8.0), go_on))


def another_driver(*overrides: str) -> Fault:
    """One more driver of a sweep that has one."""

    def fault(world: World) -> bool:
        sweep = world.chance.choice(sorted(world.sweeps))
        if len(world.living(sweep)) != 1:
            return False
        world.drive(sweep, *overrides)
        return True

    return fault


def fork_server_killed(world: World) -> bool:
    """What a driver forks its workers from is gone."""
    for process in sorted(Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            here = os.fsencode(world.environment["ISOSWEEP_CHAOS"])
            marked = b"ISOSWEEP_CHAOS=" + here in (process / "environ").read_bytes()
            leads = os.getsid(int(process.name)) != int(process.name)
            if b"isosweep.launchers.fork_server" in words and marked and leads:
                os.kill(int(process.name), signal.SIGKILL)
                return True
    return False


def cancelled(world: World) -> bool:
    """A sweep is cancelled by another command; its driver ends, and it is resumed."""
    sweep = world.chance.choice(sorted(world.sweeps))
    command = world.command(sweep, "cancel")
    done = subprocess.run(
        command, cwd=world.directory, env=world.environment, capture_output=True, check=False
    )
    with (world.directory / "cancel.log").open("ab") as log:
        log.write(done.stdout + done.stderr)
    return done.returncode in (0, 1)


def litter(world: World) -> bool:
    """What a crash, an editor or a curious person leaves behind lies among a run's files."""
    runs = world.runs
    if not runs:
        return False
    run = world.chance.choice(runs)
    for directory in (run.attempts, run.submissions, run.records, run.checkpoints):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f".9.json.{world.chance.randrange(10**6)}.ab12").write_text('{"torn": ')
        (directory / "notes.txt").write_text("what is this?\n")
    return True


FAULTS: dict[str, tuple[int, Fault]] = {
    "worker: SIGKILL": (8, to_worker(signal.SIGKILL)),
    "worker: SIGTERM": (4, to_worker(signal.SIGTERM)),
    "worker: SIGINT": (2, to_worker(signal.SIGINT)),
    "worker: SIGHUP": (2, to_worker(signal.SIGHUP)),
    "worker: SIGUSR1": (2, to_worker(signal.SIGUSR1)),
    "worker: SIGUSR2": (4, to_worker(signal.SIGUSR2)),
    "worker: SIGSTOP": (4, stopped_worker),
    "driver: SIGKILL": (3, to_driver(signal.SIGKILL)),
    "driver: Ctrl-C": (3, to_driver(signal.SIGINT)),
    "driver: SIGTERM": (2, to_driver(signal.SIGTERM)),
    "driver: SIGHUP": (2, to_driver(signal.SIGHUP)),
    "driver: SIGSTOP": (2, to_driver(signal.SIGSTOP)),
    "a second driver": (3, another_driver()),
    "a takeover": (3, another_driver("takeover=true")),
    "mode=cancel": (2, cancelled),
    "litter": (2, litter),
}
LOCAL_FAULTS: dict[str, tuple[int, Fault]] = {"fork server: SIGKILL": (2, fork_server_killed)}


# -- the course of it --------------------------------------------------------------------------


def disturb(world: World, faults: int) -> None:
    """Drive both sweeps while `faults` faults happen to them."""
    known = FAULTS | (LOCAL_FAULTS if world.cluster is None else slurm_faults())
    weights = [weight for weight, _ in known.values()]
    due = time.monotonic() + 5.0
    deadline = time.monotonic() + faults * PACE_S * 6 + 120
    while sum(world.counts.values()) < faults and time.monotonic() < deadline:
        _tend(world)
        if time.monotonic() > due and world.workers():
            name = world.chance.choices(list(known), weights)[0]
            if known[name][1](world):
                world.counts[name] += 1
                print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
                due = time.monotonic() + world.chance.expovariate(1 / PACE_S)
        time.sleep(0.1)


def _tend(world: World) -> None:
    """Let stopped processes go on, keep a driver at each sweep, and watch what the runs do."""
    now = time.monotonic()
    for item in [item for item in world.wake if item[0] < now]:
        world.wake.remove(item)
        item[1]()
    for sweep in world.sweeps:
        if not world.living(sweep):
            world.drive(sweep)
    _watch(world)


def _watch(world: World) -> None:
    """How long runs that were hit took to come forward, and whether two workers have one run."""
    for item in list(world.hit):
        name, run, since = item
        state = view_run(run).state
        if state and (state.progressed > since + 0.5 or state.status == "finished"):
            world.waits[name].append(max(0.0, state.progressed - since))
            world.hit.remove(item)
    for run in world.runs:
        workers = [p for p in _processes(run) if at_work(p)]
        key = f"{run.run_id}"
        began = _TOGETHER.setdefault(key, time.monotonic())
        if len(workers) < 2:
            del _TOGETHER[key]
        else:
            world.together = max(world.together, time.monotonic() - began)


_TOGETHER: dict[str, float] = {}


def _processes(run: RunPaths) -> Iterator[Process]:
    """The processes of all attempts of a run."""
    for path in sorted(run.attempts.glob("[0-9]*.json")):
        with contextlib.suppress(ValueError, KeyError):
            document = read_json(path)
            if document is not None:
                yield Process(host=document["host"], pid=document["pid"], start=document["start"])


def finish(world: World) -> None:
    """Let go on what is stopped, end the drivers, and resume both sweeps to their ends."""
    for _, go_on in world.wake:
        go_on()
    world.wake.clear()
    for sweep in world.sweeps:
        for driver in world.living(sweep):
            driver.kill()
            driver.wait()
    for sweep in world.sweeps:
        world.drive(sweep)
    deadline = time.monotonic() + PATIENCE_S
    for sweep in world.sweeps:
        while world.living(sweep) and time.monotonic() < deadline:
            _watch(world)
            time.sleep(0.2)


def compare(world: World, reference: World) -> dict[str, float]:
    """Print what was lost, changed or doubled; the figures of the goals."""
    unfinished, changed, doubled, torn = [], [], 0, 0
    for run in reference.runs:
        mine = RunPaths(world.directory / "sweeps" / "runs" / run.run_id)
        read, known = read_records(mine.records), read_records(run.records)
        state = view_run(mine).state
        if state is None or state.status != "finished":
            unfinished.append(run.run_id)
        if [r.reproducible() for r in read.records] != [r.reproducible() for r in known.records]:
            changed.append(run.run_id)
        doubled += sum(" again in attempt " in problem for problem in read.problems)
        torn += sum(" again in attempt " not in problem for problem in read.problems)
    for what, names in (("unfinished", unfinished), ("changed", changed)):
        if names:
            print(f"{what}: {', '.join(names)}")
    attempts = [len(list(run.attempts.glob("[0-9]*.json"))) for run in world.runs]
    print(
        f"{len(reference.runs)} runs, {sum(attempts)} attempts ({max(attempts)} of one run at "
        f"most), {torn} lines torn by kills"
    )
    return {
        "faults": float(sum(world.counts.values())),
        "runs": float(len(reference.runs)),
        "unfinished": float(len(unfinished)),
        "changed": float(len(changed)),
        "doubled": float(doubled),
        "together": world.together,
    }


def table(world: World) -> None:
    """Print what happened, how often, and how long runs that were hit took to come forward."""
    print(f"\n| {'fault':28} | times | until the run came forward again: median, longest |")
    print(f"|{'-' * 30}|------:|---|")
    for name, count in sorted(world.counts.items()):
        waits = world.waits.get(name, [])
        took = f"{statistics.median(waits):.1f} s, {max(waits):.1f} s" if waits else ""
        print(f"| {name:28} | {count:5} | {took} |")
    print()


def slurm_faults() -> dict[str, tuple[int, Fault]]:
    """What only a scheduler can do to a run."""
    return {
        "scancel": (3, _slurm("scancel", "{job}")),
        "scancel --signal=USR2": (2, _slurm("scancel", "--signal=USR2", "{job}")),
        "scontrol requeue": (3, _slurm("scontrol", "requeue", "{job}")),
        "slurmctld stopped": (1, _controller_stopped),
        "slurmstepd: SIGKILL": (1, _step_daemon_killed),
    }


def _slurm(*words: str) -> Fault:
    def fault(world: World) -> bool:
        workers = [state for _, state in world.workers() if state.job_id]
        if world.cluster is None or not workers:
            return False
        job = str(world.chance.choice(workers).job_id)
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            world.cluster.run(*(word.format(job=job) for word in words))
            return True
        return False

    return fault


def _controller_stopped(world: World) -> bool:
    assert world.cluster is not None
    world.cluster.end("slurmctld")
    time.sleep(world.chance.uniform(1.0, 10.0))
    world.cluster.restart("slurmctld")
    return True


def _step_daemon_killed(world: World) -> bool:
    from tests.slurm.faults import kill_processes

    daemons = [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if b"slurmstepd" in (process / "cmdline").read_bytes()
        and os.fsencode(str(world.cluster and world.cluster.conf_path))
        in (process / "environ").read_bytes()
    ]
    kill_processes([world.chance.choice(daemons)] if daemons else [])
    return bool(daemons)


@contextlib.contextmanager
def cluster_of(launcher: str) -> Iterator["SlurmCluster | None"]:
    """A Slurm of its own, or none."""
    if launcher != "slurm":
        yield None
        return
    from tests.slurm.cluster import SlurmCluster

    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as directory,
        SlurmCluster(Path(directory)) as cluster,
    ):
        os.environ.update(cluster.environment)
        yield cluster


def make_world(directory: Path, options: argparse.Namespace, *, disturbed: bool) -> World:
    """A directory for both sweeps; `disturbed`: it is the one that faults happen to."""
    directory.mkdir()
    environment = {**os.environ, "ISOSWEEP_CHAOS": str(directory), "OMP_NUM_THREADS": "1"}
    launcher = ("launcher=local",)
    if disturbed:
        environment["ISOSWEEP_TEST_STEP_S"] = str(STEP_S)
        environment["PYTHONPATH"] = os.pathsep.join([str(SLOWLY), os.environ.get("PYTHONPATH", "")])
        if options.launcher == "slurm":
            memory = ("launcher.slurm.mem_gb=1", "launcher.slurm.cpus_per_task=1")
            launcher = ("launcher=slurm", *memory)
    return World(
        directory=directory,
        chance=random.Random(options.seed),
        launcher=launcher,
        seeds=options.seeds,
        environment=environment,
    )


def main() -> None:
    """Disturb two sweeps, and judge what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launcher", choices=("local", "slurm"), default="local")
    parser.add_argument("--faults", type=int, default=120, help="how many happen")
    parser.add_argument("--seeds", type=int, default=4, help="of both sweeps: 6 runs each")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--keep", type=Path, help="a new directory for the sweeps, not removed")
    options = parse(parser, GOALS, QUICK)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(cluster_of(options.launcher))
        root = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root.mkdir(exist_ok=True)
        reference = make_world(root / "reference", options, disturbed=False)
        for sweep in reference.sweeps:
            reference.drive(sweep)
            (driver,) = reference.drivers[sweep]
            if driver.wait() != 0:
                sys.exit((reference.directory / f"{sweep}.log").read_text())
        world = make_world(root / "disturbed", options, disturbed=True)
        world.cluster = cluster
        began = time.monotonic()
        disturb(world, options.faults)
        disturbed = time.monotonic() - began
        finish(world)
        table(world)
        print(f"{disturbed:.0f} s of faults, {time.monotonic() - began - disturbed:.0f} s after")
        judge(GOALS, compare(world, reference), options)


if __name__ == "__main__":
    main()
