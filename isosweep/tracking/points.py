"""What a view shows of a run: points and facts, made from the run's files alone."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from isosweep.compute import BudgetUnit, Compute
from isosweep.difficulty.measurement import bucket_rewards, read_base_rates
from isosweep.errors import RecordError
from isosweep.heldout import score
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation, Record, read_metrics, read_records, read_warnings
from isosweep.words.numbers import short

RunStatus = Literal["SCHEDULED", "RUNNING", "FINISHED", "FAILED", "KILLED"]
Params = Mapping[str, str | float | int]
# Files to be stored, each in a folder.
Files = Sequence[tuple[Path, str]]


@dataclass(frozen=True)
class Point:
    """Metrics of one step. A run's points of one `series` come by ascending step; those of none
    are sent when a value changes."""

    step: int
    unix_time: float
    values: dict[str, float]
    series: str = ""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a view is to show of a run, or the part of that which a store lacks.

    `begun`: Unix time, None before the first record; `status`: None where it is to stay;
    `complete`: no points will follow; `note`: a description, in Markdown.
    """

    params: Params = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()
    begun: float | None = None
    status: RunStatus | None = None
    end_time: float | None = None
    complete: bool = False
    note: str = ""
    files: Files = ()


# Keys of a line of metrics that are not metrics.
_PLACE = frozenset({"step", "attempt", "time", "unix_time", "version"})
# Characters of a tag that every store takes (Databricks' limit is the smallest).
_MAX_TAG = 1000
# What reward is drawn against: a metric that every record has.
COMPUTE: dict[BudgetUnit, str] = {
    "flops": "compute/flops",
    "rollouts": "compute/rollouts",
    "tokens": "compute/tokens",
    "device_hours": "compute/device_seconds",
}
# Metrics that add up over the runs of a sweep.
SPENT = ("train_min", "eval_min", "dollars")


def read_run(
    files: RunPaths, planned: PlannedRun, plan: Plan, max_points: int, devices: int = 1
) -> Content:
    """Return what the files of a run say; `max_points`: training steps to keep at most; `devices`:
    of one run. Of a damaged file the tag `unreadable` says what is wrong."""
    tags = dict.fromkeys(("budgets_reached", "warnings", "unreadable"), "")
    try:
        records = read_records(files.records).records
        begun = start_time(records, devices)
        spent = records[-1].compute if records else Compute()
        reached = [b for b in planned.milestones if spent.has_reached(b, plan.budget_unit)]
        tags["budgets_reached"] = ",".join(f"{budget:g}" for budget in reached)
        warnings = read_warnings(files.warnings, files.records)
        tags["warnings"] = ", ".join(f"{each.rule} (step {each.step})" for each in warnings)
        # MLflow's page of a comparison begins with the first metric.
        points = (
            *heldout_points(records, plan, devices, read_base_rates(files)),
            Point(0, begun or 0.0, _sizes(planned, plan), "numbers"),
            *_training_points(files, math.ceil(planned.num_steps / max_points)),
        )
    except (KeyError, TypeError, ValueError, RecordError, OSError) as error:
        return Content(tags=tags | {"unreadable": f"{type(error).__name__}: {error}"[:_MAX_TAG]})
    return Content(tags=tags, points=points, begun=begun)


def _sizes(planned: PlannedRun, plan: Plan) -> dict[str, float]:
    """Return n, T and B as metrics: filters of MLflow compare these as numbers, params as text."""
    n, steps = planned.num_generations, planned.num_steps
    sizes = {"n": float(n), "T": float(steps), "log2_n": math.log2(n)}
    return sizes | ({"B": float(planned.problems_per_batch)} if varies_in_batch(plan) else {})


def start_time(records: Sequence[Record], devices: int) -> float | None:
    """Return the Unix time before a run's start-up and first evaluation; None without a record."""
    if not records:
        return None
    first = records[0]
    return first.unix_time - first.seconds - first.compute.startup_seconds / devices


def heldout_points(
    records: Sequence[Record],
    plan: Plan,
    devices: int = 1,
    rates: Sequence[float | None] | None = None,
) -> Iterator[Point]:
    """Yield a point for each record; `rates`: (problems,) success rates before training."""
    drawn_against, evaluating = COMPUTE[plan.budget_unit], 0.0
    for record in records:
        evaluating += record.seconds
        training = record.compute.device_seconds / devices
        hours = (training + evaluating) * devices / 3600
        compute = {
            "compute/flops": record.compute.flops,
            "compute/rollouts": float(record.compute.rollouts),
            "compute/tokens": float(record.compute.tokens),
            "compute/device_seconds": record.compute.device_seconds,
            "compute/evaluation_seconds": record.seconds,
            "train_min": rounded(training / 60),
            "eval_min": rounded(evaluating / 60),
        }
        # After a step, 0 means that it was not measured.
        values = {name: value for name, value in compute.items() if value or not record.step}
        if (dollars := plan.pricing.dollars(hours)) is not None and (dollars or not record.step):
            values["dollars"] = rounded(dollars)
        # MLflow's charts have a logarithmic axis for steps alone.
        if amount := values.get(drawn_against):
            values[drawn_against.replace("/", "/log10_")] = math.log10(amount)
        if computed := record.compute.hardware_flops:
            values["compute/hardware_flops"] = computed
            values["compute/model_share"] = record.compute.flops / computed
        if rates is not None and record.successes:
            buckets = bucket_rewards(rates, record.successes, record.samples_per_problem)
            values |= {f"heldout/reward_{name}": reward for name, reward in buckets.items()}
        scores = dict(_scores("heldout", record))
        for name, evaluation in record.sets.items():
            scores.update(_scores(f"sets/{name}", evaluation))
        yield Point(record.step, record.unix_time, scores | values, "heldout")


def _scores(prefix: str, evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    yield f"{prefix}/avg_at_k", evaluation.reward
    if evaluation.successes:
        scores = score(evaluation.successes, evaluation.samples_per_problem)
        yield f"{prefix}/best_at_k", scores.best
        yield f"{prefix}/worst_at_k", scores.worst
        yield from ((f"{prefix}/pass_at_{j}", share) for j, share in scores.pass_at.items())
    for name, values in evaluation.scores.items():
        yield f"{prefix}/{name}_at_k", math.fsum(values) / len(values)


def _training_points(files: RunPaths, stride: int) -> Iterator[Point]:
    """Yield the numbers of each logged line of training, each named `train/...`."""
    for line in read_metrics(files.metrics, files.records):
        values = {
            f"train/{key}": float(value)
            for key, value in line.items()
            if key not in _PLACE and isinstance(value, int | float) and not isinstance(value, bool)
        }
        if values and line["step"] % stride == 0:
            unix_time = line["time"] if "time" in line else line["unix_time"]
            yield Point(line["step"], unix_time, values, "train")


def rounded(number: float) -> float:
    """Round to the four digits that a page shows."""
    return float(f"{number:.4g}")


def varies_in_batch(plan: Plan) -> bool:
    """Whether the plan has several B."""
    return len({run.problems_per_batch for run in plan.runs}) > 1


def run_name(planned: PlannedRun, plan: Plan) -> str:
    """Name a run by n, B if the plan has several, seed and `grid.axes`: n=008 B=64 seed=0.

    Numbers are as wide as the plan's largest, so that names sorted as text are sorted by them.
    """
    fields = {"n": "num_generations", "B": "problems_per_batch", "seed": "seed"}
    if not varies_in_batch(plan):
        del fields["B"]
    widths = {f: len(str(max(getattr(run, f) for run in plan.runs))) for f in fields.values()}
    numbers = [f"{key}={getattr(planned, f):0{widths[f]}d}" for key, f in fields.items()]
    return " ".join([*numbers, *filter(None, [variant_label(planned.axes)])])


def budget_metric(budget: float, budgets: Sequence[float]) -> str:
    """Name the metric of a run's reward at `budget`: reward_1_8.1e10. Its place among `budgets`
    comes first, since MLflow sorts names as text."""
    place = 1 + sum(each < budget for each in budgets)
    return f"reward_{place:0{len(str(len(budgets)))}d}_{short(budget)}"
