"""What MLflow is sent of a run's files: points, statuses and totals, all pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isosweep.compute import BudgetUnit
from isosweep.difficulty import bucket_rewards
from isosweep.files import JsonObject
from isosweep.plan import PlannedRun
from isosweep.records import Record
from isosweep.state import RunState

FinalStatus = Literal["FINISHED", "FAILED", "KILLED"]

# Columns of a line of metrics.jsonl that say where it belongs and are not metrics.
_PLACE = frozenset({"step", "attempt", "time", "unix_time", "version"})


@dataclass(frozen=True)
class Point:
    """Metrics of one step; they are sent together, so any of them tells whether all are there."""

    step: int
    unix_time: float
    values: dict[str, float]


@dataclass(frozen=True)
class RunProgress:
    """What the records of a run come to, as of the file sizes and times in `signature`."""

    signature: tuple[tuple[int, int] | None, ...]
    reached: tuple[float, ...] = ()
    num_records: int = 0
    best_reward: float | None = None
    last_time: float = 0.0


def mlflow_status(state: RunState | None) -> tuple[str, str]:
    """MLflow's status and our word for it. A dead owner cannot report its own end."""
    if state is None:
        return "SCHEDULED", "planned"
    match state.status:
        case "running":
            return ("RUNNING", "running") if state.alive() else ("KILLED", "killed")
        case "finished":
            return "FINISHED", "finished"
        case "failed":
            return "FAILED", "failed"
        case "interrupted" | "cancelled":
            return "KILLED", state.status


def run_progress(
    signature: tuple[tuple[int, int] | None, ...],
    records: tuple[Record, ...],
    planned: PlannedRun,
    unit: BudgetUnit,
) -> RunProgress:
    if not records:
        return RunProgress(signature)
    last = records[-1]
    return RunProgress(
        signature,
        tuple(b for b in planned.milestones if last.compute.has_reached(b, unit)),
        len(records),
        max(record.reward for record in records),
        max(record.unix_time for record in records),
    )


def held_out_point(record: Record, rates: Sequence[float | None] | None = None) -> Point:
    """`rates`: (problems,) success rates before training; with them avg@k of each difficulty."""
    values = {
        "heldout/avg_at_k": record.reward,
        "compute/flops": record.compute.flops,
        "compute/rollouts": float(record.compute.rollouts),
        "compute/tokens": float(record.compute.tokens),
        "compute/device_seconds": record.compute.device_seconds,
    }
    if rates is not None:
        rewards = bucket_rewards(rates, record.successes, record.samples_per_problem)
        values |= {f"heldout/reward_{name}": reward for name, reward in rewards.items()}
    return Point(record.step, record.unix_time, values)


def training_point(line: JsonObject) -> Point:
    values = {
        f"train/{key}": float(value)
        for key, value in line.items()
        if key not in _PLACE and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return Point(line["step"], line["time"] if "time" in line else line["unix_time"], values)


def file_signature(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns
