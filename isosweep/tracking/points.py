"""What a view is sent of a run's files: points, statuses and totals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from isosweep.compute import BudgetUnit
from isosweep.difficulty.buckets import bucket_rewards
from isosweep.difficulty.measurement import read_base_rates
from isosweep.errors import RecordError
from isosweep.files import JsonObject
from isosweep.heldout import score
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation, Record, read_metrics, read_records, read_warnings
from isosweep.words.numbers import short

FinalStatus = Literal["FINISHED", "FAILED", "KILLED"]
MlflowStatus = Literal["SCHEDULED", "RUNNING"] | FinalStatus

# Columns of a line of metrics.jsonl that say where it belongs and are not metrics.
_PLACE = frozenset({"step", "attempt", "time", "unix_time", "version"})
# Characters of a tag that every store takes (Databricks' limit is the smallest).
MAX_TAG = 1000
# What reward is drawn against: a metric that every record has.
COMPUTE: dict[BudgetUnit, str] = {
    "flops": "compute/flops",
    "rollouts": "compute/rollouts",
    "tokens": "compute/tokens",
    "device_hours": "compute/device_seconds",
}
# What a run has taken, and all runs in the sweep's own: wall time; dollars if they are known.
_TAKEN = ("train_min", "eval_min", "dollars")


@dataclass(frozen=True)
class Point:
    """Metrics of one step. `series`: of a run's points those that come by ascending step."""

    step: int
    unix_time: float
    values: dict[str, float]
    series: str = ""


@dataclass(frozen=True, kw_only=True)
class RunReading:
    """What the files of a run say. `points`: all that a view is to hold, each series by step.
    `taken`: the last minutes and dollars among them. `fault`: why a damaged file was not read."""

    points: tuple[Point, ...] = ()
    reached: tuple[float, ...] = ()
    num_records: int = 0
    best_reward: float | None = None
    taken: dict[str, float] = field(default_factory=dict)
    begun: float | None = None
    last_time: float = 0.0
    warnings: str = ""
    fault: str = ""


# MLflow's word for each standing, whose icon its table shows: green for FINISHED alone, so that a
# run without a reward to use is none of those. What it is instead, the tag `status` says.
MLFLOW_STATUS: dict[Standing, MlflowStatus] = {
    Standing.NOT_BEGUN: "SCHEDULED",
    Standing.QUEUED: "SCHEDULED",
    Standing.RUNNING: "RUNNING",
    Standing.TO_EXTEND: "SCHEDULED",
    Standing.STOPPED: "FINISHED",
    Standing.INTERRUPTED: "KILLED",
    Standing.FAILED: "FAILED",
    Standing.CANCELLED: "KILLED",
    Standing.DIVERGED: "FAILED",
    Standing.DONE: "FINISHED",
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the points of a sweep's runs are made by. `max_points`: steps of a run's training, at
    most; `devices`: what one run takes, by which its wall time is paid."""

    plan: Plan
    max_points: int
    devices: int = 1


def varies_in_batch(plan: Plan) -> bool:
    """Whether the plan has several B."""
    return len({run.problems_per_batch for run in plan.runs}) > 1


def budget_metric(budget: float, budgets: Sequence[float]) -> str:
    """The metric that holds a run's reward at `budget`, in characters that MLflow takes:
    reward_1_8.1e10. Its place among `budgets` comes first: names are sorted as text."""
    place = 1 + sum(each < budget for each in budgets)
    return f"reward_{place:0{len(str(len(budgets)))}d}_{short(budget)}"


def read_run(files: RunPaths, planned: PlannedRun, shape: Shape) -> RunReading:
    """What the files of `planned` say."""
    try:
        return _read_run(files, planned, shape)
    except (KeyError, TypeError, ValueError, RecordError, OSError) as error:
        return RunReading(fault=f"{type(error).__name__}: {error}"[:MAX_TAG])


def _read_run(files: RunPaths, planned: PlannedRun, shape: Shape) -> RunReading:
    records = read_records(files.records).records
    plan, begun = shape.plan, begun_at(records, shape.devices)
    stride = math.ceil(planned.num_steps / shape.max_points)
    # As numbers, which params are not: filters compare them.
    own = {"n": planned.num_generations, "T": planned.num_steps}
    if varies_in_batch(plan):
        own["B"] = planned.problems_per_batch
    numbers = {key: float(value) for key, value in own.items()}
    numbers["log2_n"] = math.log2(planned.num_generations)
    lines = read_metrics(files.metrics, files.records)
    training = [training_point(line) for line in lines if line["step"] % stride == 0]
    raised = read_warnings(files.warnings, files.records)
    held_out = tuple(held_out_points(records, read_base_rates(files), shape))
    last = held_out[-1].values if held_out else {}
    return RunReading(
        points=(
            # The first metric of all is what MLflow's page of a comparison begins with.
            *held_out,
            Point(0, begun or 0.0, numbers, "numbers"),
            *(point for point in training if point.values),
        ),
        reached=tuple(
            budget
            for budget in planned.milestones
            if records and records[-1].compute.has_reached(budget, plan.budget_unit)
        ),
        num_records=len(records),
        best_reward=max((record.reward for record in records), default=None),
        taken={key: last[key] for key in _TAKEN if key in last},
        begun=begun,
        last_time=max((record.unix_time for record in records), default=0.0),
        warnings=", ".join(f"{warning.rule} (step {warning.step})" for warning in raised),
    )


def begun_at(records: Sequence[Record], devices: int) -> float | None:
    """When a run began, Unix time: its start-up and first evaluation before its first record; None
    before that."""
    if not records:
        return None
    first = records[0]
    return first.unix_time - first.seconds - first.compute.startup_seconds / devices


def held_out_points(
    records: Sequence[Record], rates: Sequence[float | None] | None, shape: Shape
) -> Iterator[Point]:
    """One point a record, with what the run has taken until then; `rates`: as `held_out_point`."""
    metric, evaluating = COMPUTE[shape.plan.budget_unit], 0.0
    for record in records:
        evaluating += record.seconds
        point = held_out_point(record, rates)
        # MLflow's charts have a logarithmic axis for steps alone.
        if spent := point.values.get(metric):
            point.values[metric.replace("/", "/log10_")] = math.log10(spent)
        point.values.update(_taken(record, evaluating, shape))
        yield point


def held_out_point(record: Record, rates: Sequence[float | None] | None = None) -> Point:
    """Metrics of a held-out evaluation; `rates`: (problems,) success rates before training."""
    spent = {
        "compute/flops": record.compute.flops,
        "compute/rollouts": float(record.compute.rollouts),
        "compute/tokens": float(record.compute.tokens),
        "compute/device_seconds": record.compute.device_seconds,
        "compute/evaluation_seconds": record.seconds,
    }
    values = {
        **dict(_scored("heldout", record)),
        **dict(pair for name, own in record.sets.items() for pair in _scored(f"sets/{name}", own)),
        # What is 0 after a step, nobody has counted.
        **{name: value for name, value in spent.items() if value or not record.step},
    }
    computed = record.compute.hardware_flops
    if computed:
        # What devices computed, and the share of it that the model needed.
        values["compute/hardware_flops"] = computed
        values["compute/model_share"] = record.compute.flops / computed
    if rates is not None and record.successes:
        rewards = bucket_rewards(rates, record.successes, record.samples_per_problem)
        values |= {f"heldout/reward_{name}": reward for name, reward in rewards.items()}
    return Point(record.step, record.unix_time, values, "heldout")


def _taken(record: Record, evaluating: float, shape: Shape) -> dict[str, float]:
    """What the run has taken up to `record`, to four digits: minutes of wall time, and, where
    devices have a price, dollars for both; `evaluating`: seconds of its evaluations."""
    training = record.compute.device_seconds / shape.devices
    taken = {"train_min": training / 60, "eval_min": evaluating / 60}
    hours = (training + evaluating) * shape.devices / 3600
    if (dollars := shape.plan.pricing.dollars(hours)) is not None:
        taken["dollars"] = dollars
    # What is 0 after a step, nobody has measured.
    return {
        name: float(f"{value:.4g}") for name, value in taken.items() if value or not record.step
    }


def _scored(where: str, taken: Evaluation) -> Iterator[tuple[str, float]]:
    """The evaluation's scores, under `where`; of single problems where these are known."""
    yield f"{where}/avg_at_k", taken.reward
    if taken.successes:
        scores = score(taken.successes, taken.samples_per_problem)
        yield f"{where}/best_at_k", scores.best
        yield f"{where}/worst_at_k", scores.worst
        yield from ((f"{where}/pass_at_{j}", share) for j, share in scores.pass_at.items())
    for name, own in taken.scores.items():
        yield f"{where}/{name}_at_k", math.fsum(own) / len(own)


def training_point(line: JsonObject) -> Point:
    """Metrics of one logged line of training: its numbers, each named `train/...`."""
    values = {
        f"train/{key}": float(value)
        for key, value in line.items()
        if key not in _PLACE and isinstance(value, int | float) and not isinstance(value, bool)
    }
    unix_time = line["time"] if "time" in line else line["unix_time"]
    return Point(line["step"], unix_time, values, "train")
