"""Sweeps whose runs the tests write themselves, for the tests of tracking."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from isosweep.compute import Compute
from isosweep.config.health import HealthConfig
from isosweep.config.tracking import TrackingConfig
from isosweep.files import JsonObject
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.attempts import Attempt, Process, Status
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_metrics,
    append_record,
)
from isosweep.tracking.mlflow import MlflowBackend
from isosweep.tracking.tracker import Overview, Tracker
from isosweep.tracking.wandb import WandbBackend
from tests.tracking.wandb_server import WandbServer

START = 1_700_000_000.0
NUM_STEPS = 40
EVAL_STEPS = (0, 10, 20, 30, 40)
EVALUATION_S = 3.0
FLOPS_PER_STEP = 1e9
# Health rules that end a run.
HEALTH = HealthConfig(stop=["collapse"])
SPEC_PARAMS: dict[str, str | float | int] = {"model": "tiny", "task": "sort", "beta": 0.5}


def make_plan(num_runs: int = 2) -> Plan:
    runs = tuple(
        PlannedRun(
            run_id=f"tiny-sort-n{2**i}-B4-s0-abc{i}",
            num_generations=2**i,
            problems_per_batch=4,
            seed=0,
            learning_rate=1e-3,
            milestones=(2e10, 4e10),
            num_steps=NUM_STEPS,
            planned_flops=4e10,
            seconds=60.0,
            micro_batch=8,
        )
        for i in range(1, num_runs + 1)
    )
    return Plan(budget_unit="flops", budgets=(2e10, 4e10), cells=(), runs=runs, rejected=())


@dataclass(kw_only=True)
class Shown:
    """A run in a view: `points` by metric as (step, value), `values` as they were last."""

    name: str
    params: dict[str, str]
    tags: dict[str, str]
    points: dict[str, list[tuple[int, float]]]
    values: dict[str, float]


class Sweep:
    """A sweep directory with a plan, whose runs the tests write themselves."""

    def __init__(
        self,
        root: Path,
        num_runs: int = 2,
        directory: str = "it's a sweep",
        name: Literal["mlflow", "wandb"] = "mlflow",
        **config: Any,
    ) -> None:
        self.root = root
        # What has its view in W&B.
        self.server: WandbServer | None = None
        self.plan = make_plan(num_runs)
        self.paths = SweepPaths(root / directory, root / "runs")
        self.config = TrackingConfig(name=name, **config)
        self.runs = [self.paths.run(run.run_id) for run in self.plan.runs]
        for run in self.runs:
            run.root.mkdir(parents=True, exist_ok=True)

    def tracker(self, overview: Overview | None = None) -> Tracker:
        made = WandbBackend if self.config.name == "wandb" else MlflowBackend
        return Tracker(
            made(self.config, self.paths, self.plan),
            self.paths,
            self.plan,
            SPEC_PARAMS,
            self.config.max_points,
            HEALTH,
            overview=lambda: overview or Overview(),
        )

    def shown(self) -> dict[str, Shown]:
        """What the view says of each run, and of the sweep as `parent`, whatever it is kept in."""
        return self._in_wandb() if self.config.name == "wandb" else self._in_mlflow()

    def _in_mlflow(self) -> dict[str, Shown]:
        histories = self.histories()
        return {
            name: Shown(
                name=run.info.run_name,
                params=dict(run.data.params),
                tags=dict(run.data.tags),
                points={
                    key: [(step, value) for step, _, value in points]
                    for (owner, key), points in histories.items()
                    if owner == name and "/" in key
                },
                values=dict(run.data.metrics),
            )
            for name, run in self.stored().items()
        }

    def _in_wandb(self) -> dict[str, Shown]:
        assert self.server is not None
        return {
            run.values.get("run_id", "parent"): Shown(
                name=run.said["displayName"],
                params={key: str(value) for key, value in run.values.items()},
                tags={key: value for key, value in run.summary.items() if isinstance(value, str)},
                points={key: run.points(key) for row in run.rows for key in row if "/" in key},
                values={k: v for k, v in run.summary.items() if not isinstance(v, str)},
            )
            for run in self.server.runs.values()
        }

    @property
    def store(self) -> MlflowBackend:
        return MlflowBackend(self.config, self.paths, self.plan)

    def client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient(tracking_uri=self.store.uri)

    def stored(self) -> dict[str, Any]:
        """MLflow runs by isosweep run id; the parent under `parent`."""
        client = self.client()
        experiment = client.get_experiment_by_name(self.config.experiment)
        found = client.search_runs([experiment.experiment_id])
        mine = f"{self.paths.root.name}@{self.plan.plan_id}"
        runs = [run for run in found if run.data.tags["isosweep.sweep"] == mine]
        stored = {run.data.tags.get("isosweep.run_id", "parent"): run for run in runs}
        assert len(stored) == len(runs), "a run was made twice"
        return stored

    def child(self, number: int = 0) -> Any:
        return self.stored()[self.runs[number].run_id]

    def histories(self) -> dict[tuple[str, str], list[tuple[int, int, float]]]:
        """(step, timestamp, value) of every metric of every run."""
        client = self.client()
        return {
            (name, key): [
                (m.step, m.timestamp, m.value)
                for m in client.get_metric_history(run.info.run_id, key)
            ]
            for name, run in self.stored().items()
            for key in run.data.metrics
        }

    def steps(self, key: str, number: int = 0) -> list[int]:
        return [step for step, _, _ in self.histories()[self.runs[number].run_id, key]]


def sync_command(root: Path, then: str = "", **sweep: Any) -> list[str]:
    """The command of a process of its own that syncs this sweep once, and `then` does more."""
    code = "from tests.tracking.sweeps import Path, Sweep; "
    code += f"Sweep(Path({str(root)!r}), **{sweep!r}).tracker().sync(){then}"
    return [sys.executable, "-c", code]


def record(step: int, unix_time: float | None = None) -> Record:
    compute = Compute(
        generations=step,
        rollouts=8 * step,
        prompt_tokens=40 * step,
        completion_tokens=24 * step,
        training_flops=FLOPS_PER_STEP * step,
        device_seconds=0.1 * step,
    )
    return Record(
        step=step,
        compute=compute,
        successes=(step // 10, 0),
        samples_per_problem=8,
        completion_tokens=3.0,
        unix_time=START + step if unix_time is None else unix_time,
        seconds=EVALUATION_S,
    )


def write_steps(run: RunPaths, steps: range, attempt: int = 1, shift: float = 0.0) -> None:
    """Metrics of `steps` and the records that fall among them, `shift` seconds late."""
    for step in steps:
        line: JsonObject = {"step": step, "time": START + step + shift}
        line |= {"loss": 1 / (step + 1)}
        if step > 0:
            line |= {"reward": 0.1, "note": "text", "flag": True, "none": None}
            append_metrics(run.metrics, attempt, line)
        if step in EVAL_STEPS:
            append_record(run.records, attempt, record(step, START + step + shift))


def start(run: RunPaths, attempt: int = 1, parent: int | None = None, resumed: int = 0) -> None:
    start = AttemptStart(attempt=attempt, parent=parent, resumed_step=resumed)
    append_attempt(run.records, start)


def set_state(
    run: RunPaths, status: str, step: int, *, attempt: int = 1, reason: str = ""
) -> Attempt:
    """What attempt `attempt`, of this process, wrote last."""
    compute = record(step).compute
    state = Attempt(
        run=run,
        number=attempt,
        status=Status(status),
        worker=Process.this(),
        step=step,
        compute=compute,
        finished=compute if status == "finished" else Compute(),
        reason=reason,
        updated=START + 1000 + step,
        diverged_by=HEALTH.stop[0] if status == "diverged" else None,
    )
    run.attempts.mkdir(exist_ok=True)
    state.write()
    return state


def half_done(root: Path, name: Literal["mlflow", "wandb"] = "mlflow") -> Sweep:
    """Two runs, the first of them half done."""
    sweep = Sweep(root, name=name, max_points=25)
    start(sweep.runs[0])
    write_steps(sweep.runs[0], range(21))
    set_state(sweep.runs[0], "running", 20)
    return sweep


def send(sweep: Sweep) -> None:
    """Send what lies here of W&B's, as the line says that is printed at the end."""
    made = (sweep.paths.root / "wandb").glob("*run-*")
    command = [sys.executable, "-m", "wandb", "sync", *(str(path) for path in made)]
    own = os.environ | {"WANDB_MODE": "online", "WANDB_SILENT": "false"}
    # It logs in the directory that it is called from.
    here = sweep.root.parent
    sent = subprocess.run(command, env=own, cwd=here, capture_output=True, text=True, check=False)
    assert sent.returncode == 0, sent.stderr
