"""What it costs to keep MLflow's SQLite store equal to a sweep: `python benchmarks/tracking.py`.

Seconds of CPU of the process that does it, for runs that have ended: the first sync, into a store
with tables and nothing in them; a pass in which nothing has changed; and what a new process takes
to find that a finished sweep is all there.
"""

import json
import resource
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from frame import Goal, benchmark

from isosweep.compute import Compute
from isosweep.config.study import HealthConfig, TrackingConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.attempts import Status, claim
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import AttemptStart, Record, append_attempt
from isosweep.tracking.mlflow import MlflowBackend
from isosweep.tracking.tracker import Tracker

GOALS = {
    "first": Goal("CPU seconds of the first sync of 300 runs", "at most", 50.0),
    "unchanged": Goal("CPU seconds of a pass over 300 unchanged runs", "at most", 0.05),
    "again": Goal("CPU seconds of a new process's sync of 300 finished runs", "at most", 3.0),
    "memory": Goal("peak MB", "at most", 400.0),
}
QUICK = {"runs": 60}
# What TRL logs a step, roughly.
METRICS = (
    *("loss", "grad_norm", "reward", "reward_std"),
    *("entropy", "completion_length", "clip_ratio", "step_time"),
)
BUDGETS = (5e10, 1e11)
START = 1_700_000_000.0


def make_sweep(root: Path, runs: int, points: int) -> tuple[SweepPaths, Plan]:
    """A finished sweep of `runs` runs with `points` steps, each logged, and six evaluations."""
    planned = tuple(
        PlannedRun(
            run_id=f"tiny-sort-n{number}",
            num_generations=number,
            problems_per_batch=4,
            seed=0,
            learning_rate=1e-3,
            milestones=BUDGETS,
            num_steps=points,
            planned_flops=BUDGETS[-1],
            seconds=60.0,
            micro_batch=8,
        )
        for number in range(1, runs + 1)
    )
    paths = SweepPaths(root / "sweep", root / "runs")
    for number, run in enumerate(planned):
        write_run(paths.run(run.run_id), points, START + 7.3 * number)
    return paths, Plan(budget_unit="flops", budgets=BUDGETS, cells=(), runs=planned, rejected=())


def write_run(run: RunPaths, points: int, began: float) -> None:
    """The files of a run that ended, one write a file."""
    run.metrics.mkdir(parents=True)
    lines = [
        {"attempt": 1, "step": step, "time": began + step}
        | {name: step / (place + 1) for place, name in enumerate(METRICS)}
        for step in range(1, points + 1)
    ]
    (run.metrics / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    append_attempt(run.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
    head = {"kind": "record", "version": 1, "attempt": 1}
    with (run.records / "1.jsonl").open("a") as file:
        for step in range(0, points + 1, max(1, points // 5)):
            compute = Compute(rollouts=8 * step, training_flops=BUDGETS[-1] * step / points)
            record = Record(
                step=step,
                compute=compute,
                successes=(step * 8 // points, 1, 8, 0),
                samples_per_problem=8,
                completion_tokens=3.0,
                unix_time=began + step,
            )
            file.write(json.dumps({**head, **record.to_json()}) + "\n")
    ended = replace(claim(run), status=Status.FINISHED, step=points, updated=began + points)
    replace(ended, compute=compute, finished=compute).write()


def make_tables(uri: str) -> None:
    """MLflow's, outside what is timed: they do not depend on the sweep."""
    import mlflow

    mlflow.MlflowClient(tracking_uri=uri).search_experiments()


def cpu(work: Callable[[], object]) -> float:
    """Seconds of this process's CPU that `work` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


OPTIONS = {"--runs": 300, "--points": (100, "logged steps of each run")}


def measure(options: Namespace) -> dict[str, float]:
    """Print a line for each part; the figures, of fewer or more runs scaled to 300."""
    runs, points = options.runs, options.points
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        paths, plan = make_sweep(root, runs, points)

        def tracker() -> Tracker:
            config = TrackingConfig(name="mlflow")
            return Tracker(
                MlflowBackend(config, paths, plan),
                paths,
                plan,
                {"model": "tiny"},
                config.max_points,
                HealthConfig(),
            )

        first = tracker()
        make_tables(f"sqlite:///{paths.runs.parent.resolve() / 'mlflow.db'}")
        figures = {"first": cpu(first.sync)}
        figures["unchanged"] = min(cpu(first.sync) for _ in range(5))
        figures["again"] = cpu(tracker().sync)
        for name, seconds in figures.items():
            print(f"{name:>10} {seconds:9.4f} s of CPU, {runs} runs x {points} points")
        figures = {name: seconds * 300 / runs for name, seconds in figures.items()}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"{'memory':>10} {peak:9.0f} MB at most, MLflow's import included")
        return figures | {"memory": peak}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
