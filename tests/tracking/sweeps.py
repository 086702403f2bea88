"""Sweeps whose runs the tests write themselves, and what MLflow or W&B shows of them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.config.study import HealthConfig, TrackingConfig
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
EVAL_STEPS = (0, 10, 20, 30, 40)
# Of 40 steps at most 25.
TRAIN_STEPS = list(range(2, 41, 2))
EVALUATION_S = 3.0
HEALTH = HealthConfig(stop=["collapse"])


def make_plan(num_runs: int = 2) -> Plan:
    runs = tuple(
        PlannedRun(
            run_id=f"tiny-sort-n{2**i}-B4-s0-abc{i}",
            num_generations=2**i,
            problems_per_batch=4,
            seed=0,
            learning_rate=1e-3,
            milestones=(2e10, 4e10),
            num_steps=40,
            planned_flops=4e10,
            seconds=60.0,
            micro_batch=8,
        )
        for i in range(1, num_runs + 1)
    )
    return Plan(budget_unit="flops", budgets=(2e10, 4e10), cells=(), runs=runs, rejected=())


@dataclass(kw_only=True)
class Shown:
    """A run in a view: `points` by metric as (step, Unix time, value), `values` as they were last;
    `run`: as MLflow or the server of W&B has it."""

    run: Any
    name: str
    params: dict[str, str]
    tags: dict[str, str]
    points: dict[str, list[tuple[int, float, float]]]
    values: dict[str, float]

    def steps(self, metric: str) -> list[int]:
        return [step for step, _, _ in self.points[metric]]


class Sweep:
    """A sweep directory with a plan, whose runs the tests write themselves."""

    def __init__(
        self, root: Path, directory: str = "it's a sweep", name: Any = "mlflow", **config: Any
    ) -> None:
        self.root, self.plan = root, make_plan()
        # Of W&B.
        self.server: WandbServer | None = None
        self.paths = SweepPaths(root / directory, root / "runs")
        self.config = TrackingConfig(name=name, max_points=25, **config)
        self.runs = [self.paths.run(run.run_id) for run in self.plan.runs]
        for run in self.runs:
            run.root.mkdir(parents=True, exist_ok=True)

    def half_done(self) -> "Sweep":
        """With a first run that is at half its steps."""
        start(self.runs[0])
        write_steps(self.runs[0], range(21))
        set_state(self.runs[0], "running", 20)
        return self

    def done(self) -> None:
        """Write the other half of the first run."""
        write_steps(self.runs[0], range(21, 41))
        set_state(self.runs[0], "finished", 40)

    def backend(self) -> Any:
        made = WandbBackend if self.config.name == "wandb" else MlflowBackend
        return made(self.config, self.paths, self.plan)

    def tracker(self, overview: Overview | None = None) -> Tracker:
        params: dict[str, str | float | int] = {"model": "tiny", "task": "sort", "beta": 0.5}
        most, read = self.config.max_points, lambda: overview or Overview()
        return Tracker(self.backend(), self.paths, self.plan, params, most, HEALTH, overview=read)

    def sync(self) -> None:
        """By a process that sees it to its end."""
        tracker = self.tracker()
        tracker.sync()
        tracker.backend.close()

    def shown(self, number: int | None = 0) -> Shown:
        """The run of this number in the view, whatever that is kept in; None: the sweep's own."""
        return self.all_shown()["sweep" if number is None else self.runs[number].run_id]

    def all_shown(self) -> dict[str, Shown]:
        """All runs of the view by run id, and the sweep's own."""
        found = self._in_wandb() if self.server is not None else self._in_mlflow()
        shown = {each.params.get("run_id", "sweep"): each for each in found}
        assert len(shown) == len(found), "a run was made twice"
        return shown

    def client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient(tracking_uri=self.backend().uri)

    def _in_mlflow(self) -> list[Shown]:
        client = self.client()
        experiment = client.get_experiment_by_name(self.config.experiment)
        mine = f"{self.paths.root.name}@{self.plan.plan_id}"
        found = []
        for run in client.search_runs([experiment.experiment_id]):
            if run.data.tags["isosweep.sweep"] == mine:
                points = {
                    key: [
                        (point.step, point.timestamp / 1000, point.value)
                        for point in client.get_metric_history(run.info.run_id, key)
                    ]
                    for key in run.data.metrics
                }
                run_id = run.data.tags.get("isosweep.run_id")
                found.append(
                    Shown(
                        run=run,
                        name=run.info.run_name,
                        params=run.data.params | ({"run_id": run_id} if run_id else {}),
                        tags=run.data.tags,
                        points=points,
                        values=run.data.metrics,
                    )
                )
        return found

    def _in_wandb(self) -> list[Shown]:
        assert self.server is not None
        return [
            Shown(
                run=run,
                name=run.said["displayName"],
                params={key: str(value) for key, value in run.values.items()},
                tags={k: v for k, v in run.summary.items() if isinstance(v, str)},
                points={key: run.points(key) for key in set().union(*run.rows)},
                values={k: v for k, v in run.summary.items() if not isinstance(v, str)},
            )
            for run in self.server.runs.values()
        ]


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
        training_flops=1e9 * step,
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
        when = START + step + shift
        if step > 0:
            values: JsonObject = {"loss": 1 / (step + 1), "reward": 0.1}
            values |= {"note": "text", "flag": True, "none": None}
            append_metrics(run.metrics, attempt, {"step": step, "time": when, **values})
        if step in EVAL_STEPS:
            append_record(run.records, attempt, record(step, when))


def start(run: RunPaths, attempt: int = 1, parent: int | None = None, resumed: int = 0) -> None:
    begun = AttemptStart(attempt=attempt, parent=parent, resumed_step=resumed)
    append_attempt(run.records, begun)


def set_state(run: RunPaths, status: str, step: int, attempt: int = 1, reason: str = "") -> None:
    """What attempt `attempt`, of this process, wrote last, 1000 s after its step."""
    compute = record(step).compute
    run.attempts.mkdir(exist_ok=True)
    Attempt(
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
    ).write()


def send(sweep: Sweep) -> None:
    """Send what lies here of W&B's, as the line says that is printed at the end."""
    made = (sweep.paths.root / "wandb").glob("*run-*")
    command = [sys.executable, "-m", "wandb", "sync", *(str(path) for path in made)]
    own = os.environ | {"WANDB_MODE": "online", "WANDB_SILENT": "false"}
    # It logs in the directory that it is called from.
    here = sweep.root.parent
    sent = subprocess.run(command, env=own, cwd=here, capture_output=True, text=True, check=False)
    assert sent.returncode == 0, sent.stderr
