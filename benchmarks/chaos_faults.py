"""What happens to sweeps at random: each fault says whether there was anything for it to hit."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from chaos_world import World

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
    assert state.worker is not None
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.worker.pid, number)
        world.hit.append((f"worker: {number.name}", run, time.time()))
        return state.worker.pid
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
    """What a driver forks its workers from is gone; the workers are called as it is."""
    marked = b"ISOSWEEP_CHAOS=" + os.fsencode(world.environment["ISOSWEEP_CHAOS"])
    called = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            of_this = marked in (process / "environ").read_bytes().split(b"\0")
            if b"isosweep.launchers.preloaded" in words and of_this:
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                called[int(process.name)] = int(parent)
    servers = sorted(pid for pid, parent in called.items() if parent not in called)
    workers = {state.worker.pid for _, state in world.workers() if state.worker}
    servers = [pid for pid in servers if pid not in workers]
    if servers:
        os.kill(world.chance.choice(servers), signal.SIGKILL)
    return bool(servers)


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
    for directory in (run.attempts, run.records, run.checkpoints):
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
    "mode=cancel": (2, cancelled),
    "litter": (2, litter),
}
LOCAL_FAULTS: dict[str, tuple[int, Fault]] = {"fork server: SIGKILL": (2, fork_server_killed)}


def slurm_faults() -> dict[str, tuple[int, Fault]]:
    """What only a scheduler can do to a run."""
    return {
        "scancel": (3, _slurm("scancel", "{job}")),
        "scancel --signal=USR2": (2, _slurm("scancel", "--signal=USR2", "{job}")),
        "scontrol requeue": (3, _slurm("scontrol", "requeue", "{job}")),
        "scontrol requeuehold": (2, _held),
        "slurmctld stopped": (1, _controller_stopped),
        "slurmd: SIGKILL": (1, _node_daemon_killed),
        "slurmstepd: SIGKILL": (1, _step_daemon_killed),
    }


def _slurm(*words: str) -> Fault:
    def fault(world: World) -> bool:
        jobs = [attempt.job_id for _, attempt in world.workers() if attempt.job_id]
        if world.cluster is None or not jobs:
            return False
        job = world.chance.choice(jobs)
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            world.cluster.run(*(word.format(job=job) for word in words))
            return True
        return False

    return fault


def _held(world: World) -> bool:
    """A running job goes back into the queue and is held there for some seconds."""
    done = _slurm("scontrol", "requeuehold", "{job}")(world)

    def release() -> None:
        assert world.cluster is not None
        queue = world.cluster.run("squeue", "--noheader", "--array", "--states=PD", "--format=%i")
        with contextlib.suppress(subprocess.CalledProcessError):
            world.cluster.run("scontrol", "release", ",".join(queue.split()))

    if done:
        world.wake.append((time.monotonic() + world.chance.uniform(2.0, 8.0), release))
    return done


def _node_daemon_killed(world: World) -> bool:
    """A node's daemon is gone for some seconds; the jobs on the node live on."""
    assert world.cluster is not None
    name = f"slurmd-n{world.chance.randint(1, 4)}"
    world.cluster.end(name, kill=True)
    time.sleep(world.chance.uniform(1.0, 10.0))
    world.cluster.restart(name)
    return True


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
