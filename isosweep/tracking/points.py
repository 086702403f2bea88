"""What MLflow is sent of a run's files: points, statuses and totals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from isosweep.difficulty.buckets import bucket_rewards
from isosweep.difficulty.measurement import read_base_rates
from isosweep.errors import RecordError
from isosweep.files import JsonObject
from isosweep.heldout import RATE_GROUPS, changes, rate_group, score, score_groups
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation, Record, read_metrics, read_records, read_warnings
from isosweep.tracking.view import COMPUTE, LOG_COMPUTE, LOG_N, TAKEN, varies_in_batch

FinalStatus = Literal["FINISHED", "FAILED", "KILLED"]
MlflowStatus = Literal["SCHEDULED", "RUNNING"] | FinalStatus

# Columns of a line of metrics.jsonl that say where it belongs and are not metrics.
_PLACE = frozenset({"step", "attempt", "time", "unix_time", "version"})
# Characters of a tag that every store takes (Databricks' limit is the smallest).
MAX_TAG = 1000


@dataclass(frozen=True)
class Point:
    """Metrics of one step. `series`: of a run's points those that come by ascending step."""

    step: int
    unix_time: float
    values: dict[str, float]
    series: str = ""


@dataclass(frozen=True, kw_only=True)
class RunReading:
    """What the files of a run come to. `points`: all that MLflow is to hold, each series by step;
    none once it does. `taken`: of those the last minutes and dollars. `fault`: why nothing could be
    read of a damaged file."""

    points: tuple[Point, ...] = ()
    reached: tuple[float, ...] = ()
    num_records: int = 0
    best_reward: float | None = None
    taken: dict[str, float] = field(default_factory=dict)
    begun: float | None = None
    last_time: float = 0.0
    warnings: str = ""
    fault: str = ""

    def without_points(self) -> "RunReading":
        """The same, for keeping: points are many."""
        return replace(self, points=())


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
    numbers[LOG_N] = math.log2(planned.num_generations)
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
        taken={key: last[key] for key in TAKEN if key in last},
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
    """One point a record; what is said against the base model needs its record, of step 0.

    `rates`: (problems,) success rates before training; with them avg@k of each difficulty.
    """
    base = records[0] if records and records[0].step == 0 else None
    unit = shape.plan.budget_unit
    evaluating = 0.0
    for record in records:
        evaluating += record.seconds
        point = held_out_point(record, base, rates)
        # On a logarithmic axis of MLflow's charts, which have none for metrics, there is no 0.
        if spent := point.values.get(COMPUTE[unit]):
            point.values[LOG_COMPUTE[unit]] = math.log10(spent)
        point.values.update(_taken(record, evaluating, shape))
        yield point


def held_out_point(
    record: Record,
    base: Record | None,
    rates: Sequence[float | None] | None = None,
) -> Point:
    """Metrics of a held-out evaluation; `base`: step 0's, `rates`: (problems,) before training."""
    spent = {
        "compute/flops": record.compute.flops,
        "compute/rollouts": float(record.compute.rollouts),
        "compute/tokens": float(record.compute.tokens),
        "compute/device_seconds": record.compute.device_seconds,
        "compute/evaluation_seconds": record.seconds,
    }
    values = {
        **dict(_scored("heldout", record)),
        **(_of_problems(record, base) if record.successes else {}),
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
    for name, own in taken.scores.items():
        yield f"{where}/{name}_at_k", math.fsum(own) / len(own)


def _of_problems(record: Record, base: Record | None) -> dict[str, float]:
    """What else is said of the held-out problems."""
    scores = score(record.successes, record.samples_per_problem)
    return {
        **{f"heldout/pass_at_{j}": share for j, share in scores.pass_at.items()},
        "heldout/share_none_right": 1 - scores.best,
        "heldout/share_all_right": scores.worst,
        **(_against(record, base) if base is not None else {}),
    }


def _against(record: Record, base: Record) -> dict[str, float]:
    """What training did to the base model's held-out problems; nothing where they are others."""
    if len(record.successes) != len(base.successes):
        return {}
    samples, base_samples = record.samples_per_problem, base.samples_per_problem
    changed = changes(record.successes, samples, base.successes, base_samples)
    rates = np.asarray(base.successes) / base_samples
    groups = [RATE_GROUPS[group] for group in rate_group(rates)]
    scores = score_groups(record.successes, samples, groups)
    return {
        "heldout/share_better": float(changed.better.mean()),
        "heldout/share_worse": float(changed.worse.mean()),
        **{f"heldout/avg_at_k_of_{name}": each.avg for name, each in scores.items()},
    }


def training_point(line: JsonObject) -> Point:
    """Metrics of one logged line of training: its numbers, each named `train/...`."""
    values = {
        f"train/{key}": float(value)
        for key, value in line.items()
        if key not in _PLACE and isinstance(value, int | float) and not isinstance(value, bool)
    }
    unix_time = line["time"] if "time" in line else line["unix_time"]
    return Point(line["step"], unix_time, values, "train")
