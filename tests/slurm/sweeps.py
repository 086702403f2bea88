"""A sweep on the test cluster, its drivers, and what is asked of it after each fault."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isosweep.modes.observed import Jobs, observe_runs
from isosweep.modes.sweeps import stored_sweep
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Status, highest, newest, read
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from tests.conftest import SMALL, make_config
from tests.runs import reproducible, wait_for
from tests.slurm.cluster import SlurmCluster

ROOT = Path(__file__).resolve().parents[2]
# In place of 15 s.
QUICK_POLL_S = 3.0
# Many times what any of these sweeps takes.
PATIENCE_S = 480.0
ON_SLURM = (
    "launcher=slurm",
    "launcher.slurm.cpus_per_task=1",
    "launcher.slurm.mem_gb=1",
    "checkpoint.min_interval_s=1",
    "checkpoint.share=0.5",
    "tracking=none",
)
# Jobs that keep their runs' files and train nothing.
TRIVIAL = (f"launcher.slurm.python={sys.executable} {ROOT / 'tests' / 'trivial.py'}",)
# Jobs wait until somebody lets them go.
HELD = "launcher.slurm.additional={hold:null}"
BUDGET = "budget=[6.4e9,1.28e10]"


def seeds(count: int) -> str:
    """The override for `count` seeds: two runs each (n of 2 and 4)."""
    return f"grid.seeds=[{','.join(map(str, range(count)))}]"


@dataclass
class SlurmSweep:
    """A sweep in `cwd`, a directory of its own. `step_s`: what a training step takes longer,
    `run_s`: what a trivial run takes, `poll_s`: between two questions to Slurm."""

    cluster: SlurmCluster
    cwd: Path
    overrides: tuple[str, ...]
    step_s: float = 0.0
    run_s: float = 0.0
    poll_s: float = QUICK_POLL_S
    name: str = "sweep"
    environment: dict[str, str] = field(default_factory=dict)
    drivers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cwd.mkdir(exist_ok=True)
        path = os.pathsep.join([str(ROOT / "tests" / "slowly"), os.environ.get("PYTHONPATH", "")])
        self.environment = {
            **os.environ,
            **self.cluster.environment,
            "PYTHONPATH": path,
            "ISOSWEEP_TEST_POLL_S": str(self.poll_s),
            "ISOSWEEP_TEST_STEP_S": str(self.step_s),
            "ISOSWEEP_TEST_RUN_S": str(self.run_s),
            "OMP_NUM_THREADS": "1",
            **self.environment,
        }

    # -- commands ------------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """The sweep's directory."""
        return self.cwd / "sweeps" / self.name

    @property
    def output(self) -> str:
        """All that its drivers printed."""
        log = self.cwd / "driver.log"
        return log.read_text() if log.exists() else ""

    def words(self, mode: str, *overrides: str) -> list[str]:
        """A command line; `run` and `launch` come with the sweep's settings."""
        settings = (*SMALL, *ON_SLURM, *self.overrides) if mode in ("run", "launch") else ()
        place = f"sweep={self.root}"
        return [sys.executable, "-m", "isosweep", f"mode={mode}", place, *settings, *overrides]

    def drive(self, mode: str = "run", *overrides: str) -> "subprocess.Popen[bytes]":
        """Start a driver, which goes on beside the test."""
        with (self.cwd / "driver.log").open("ab") as log:
            driver = subprocess.Popen(
                self.words(mode, *overrides),
                cwd=self.cwd,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A shell that started the tests in the background has switched SIGINT off.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.drivers.append(driver)
        return driver

    def ended(self, driver: "subprocess.Popen[bytes]") -> int:
        """The driver's status, once it has ended."""
        return driver.wait(PATIENCE_S)

    def command(self, mode: str, *overrides: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            self.words(mode, *overrides),
            cwd=self.cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def wait_for(self, condition: Callable[[], object], seconds: float = 90.0) -> None:
        """Return once `condition` gives something true; fail with what the drivers printed."""
        deadline = time.monotonic() + seconds
        while not condition():
            failed = [d.args for d in self.drivers if d.poll() not in (None, 0)]
            assert not failed, self.output
            assert time.monotonic() < deadline, (
                f"in vain\n{self.output}{self.cluster.run('squeue')}"
            )
            time.sleep(0.1)

    # -- what there is -------------------------------------------------------------------------

    @property
    def runs(self) -> list[RunPaths]:
        """Its runs, by id."""
        return [RunPaths(path) for path in sorted(self.cwd.glob("sweeps/runs/*"))]

    def jobs(self, run: RunPaths) -> list[str]:
        """The jobs that the run was submitted as, oldest first; Slurm names one that waits."""
        attempts = [read(run, number + 1) for number in range(self.attempts(run))]
        named = {(each.batch, each.index): each for each in attempts}
        jobs = [each.job_id or self._waiting(each) for each in named.values()]
        return [job for job in jobs if job]

    def _waiting(self, attempt: Attempt) -> str:
        name = f"isosweep-{attempt.batch}"
        shown = self.cluster.run("squeue", "-h", "-r", "-o", "%i", f"--name={name}")
        tasks = {job.partition("_")[2]: job for job in shown.split()}
        return tasks.get(str(attempt.index), "")

    def attempts(self, run: RunPaths) -> int:
        """How many attempts there were at the run."""
        return highest(run)

    def standings(self) -> set[Standing]:
        """How its runs stand, as `mode=status` finds it."""
        sweep = stored_sweep(make_config(f"sweep={self.root}"))
        return {run.standing for run in observe_runs(sweep, Jobs(sweep.config))}

    def wait_for_jobs(self) -> None:
        """Return once every run has a job that runs."""

        def so() -> bool:
            shown = self.cluster.run("squeue", "-h", "-r", "-o", "%i %T").splitlines()
            states = dict(line.split() for line in shown)
            jobs = [self.jobs(run) for run in self.runs]
            return bool(jobs) and all(job and states.get(job[-1]) == "RUNNING" for job in jobs)

        self.wait_for(so)

    # -- what is asked after a fault -----------------------------------------------------------

    def assert_one_job_each(self) -> None:
        """Every run is done by one job, which no other worked beside."""
        self.assert_recorded_once()
        for run in self.runs:
            assert (len(self.jobs(run)), self.attempts(run)) == (1, 1), run.run_id

    def assert_recorded_once(self) -> None:
        """Every run is done, and no attempt has taken a record twice."""
        for run in self.runs:
            attempt = newest(run)
            assert attempt is not None
            assert attempt.status is Status.FINISHED, (run.run_id, attempt)
            steps = [record.step for record in read_records(run.records).records]
            assert steps == sorted(set(steps))
            assert not any("again" in problem for problem in read_records(run.records).problems)

    def assert_equal_to(self, reference: Path) -> None:
        """Every run is done, with the records of the undisturbed one."""
        self.assert_recorded_once()
        for run in self.runs:
            known = RunPaths(reference / "sweeps" / "runs" / run.run_id)
            assert reproducible(run) == reproducible(known), run.run_id

    def close(self) -> None:
        """End what still goes on."""
        for driver in self.drivers:
            driver.kill()
            driver.wait()
        with contextlib.suppress(subprocess.SubprocessError):
            self.cluster.run("scancel", "--user=root")
            wait_for(lambda: not self.cluster.run("squeue", "-h"), 60, 0.2)


@contextlib.contextmanager
def slurm_sweep(
    cluster: SlurmCluster, cwd: Path, *overrides: str, step_s: float = 0.0, run_s: float = 0.0
) -> Iterator[SlurmSweep]:
    """A sweep on the cluster; nothing of it is left at the end."""
    sweep = SlurmSweep(cluster, cwd, (BUDGET, *overrides), step_s=step_s, run_s=run_s)
    try:
        yield sweep
    finally:
        sweep.close()
