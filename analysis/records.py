"""Curves from records: what of a run's records can be compared, and what it scores. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import Curve, SetReading, collapse
from isosweep.compute import BudgetUnit
from isosweep.metrics import METRICS, MetricName
from isosweep.plan.cells import PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.records import Record
from isosweep.store.warnings import HealthWarning

# The largest number that a byte holds.
_BYTE = 255
# Standard errors of rewards that nobody told: of records too few to tell, and the least.
_UNKNOWN, _LEAST = 0.03, 1e-3
# A share of all distances, and where a normal distribution has it, in standard deviations.
_SHARE, _NORMAL = 0.75, 1.150


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What a run last said of itself, or what is known to have become of it, and how it stands."""

    status: str | None = None
    reason: str | None = None
    diverged_by: str | None = None
    standing: Standing | None = None


def comparable(
    records: tuple[Record, ...], metric: MetricName, where: str, problems: list[str]
) -> list[Record]:
    """Records that can be scored by `metric`, of the shape (problems, samples) that most of the
    run's records have."""
    if METRICS[metric] is None:
        told = tuple(record for record in records if metric in record.scores)
        # Where none tells it, that is a refusal's to say.
        if 0 < len(told) < len(records):
            lost = len(records) - len(told)
            problems.append(f"{where}: {lost} records left out: no {metric}@k in them")
            records = told
    shapes = Counter((len(r.successes), r.samples_per_problem) for r in records)
    if len(shapes) <= 1:
        return list(records)
    usual = shapes.most_common(1)[0][0]
    kept = [r for r in records if (len(r.successes), r.samples_per_problem) == usual]
    dropped = len(records) - len(kept)
    problems.append(f"{where}: {dropped} records left out: not {usual[0]} x {usual[1]} samples")
    return kept


def of_set(
    records: Sequence[Record], name: str, where: str, problems: list[str]
) -> tuple[Record, ...]:
    """The records with what they have of one evaluation set; those without it are left out."""
    kept = [replace(r, **vars(r.sets[name])) for r in records if name in r.sets]
    if len(kept) < len(records):
        lost = len(records) - len(kept)
        problems.append(f"{where}: {lost} records left out: nothing of the evaluation set {name}")
    return tuple(kept)


def set_readings(records: Sequence[Record]) -> tuple[SetReading, ...]:
    """What a run's records have of each set, the main evaluation first."""
    names = (None, *{name: None for record in records for name in record.sets})
    found = []
    for name in names:
        taken = [r if name is None else r.sets[name] for r in records if name in (None, *r.sets)]
        if taken:
            reading = SetReading(
                name=name,
                num_problems=len(taken[0].successes),
                samples_per_problem=taken[0].samples_per_problem,
                before=taken[0].reward if records[0].step == 0 else None,
                last=taken[-1].reward,
                num_runs=1,
            )
            found.append(reading)
    return tuple(found)


def mean_readings(readings: Sequence[SetReading]) -> tuple[SetReading, ...]:
    """Readings of several runs as one for each set, in their order."""
    by_name: dict[str | None, list[SetReading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)
    found = []
    for same in by_name.values():
        before = [reading.before for reading in same if reading.before is not None]
        found.append(
            replace(
                same[0],
                before=float(np.mean(before)) if before else None,
                last=float(np.mean([reading.last for reading in same])),
                num_runs=len(same),
            )
        )
    return tuple(found)


def make_curve(
    run: PlannedRun,
    records: Sequence[Record],
    unit: BudgetUnit,
    ending: Ending,
    warnings: tuple[HealthWarning, ...] = (),
    devices: int = 1,
) -> Curve:
    """The run's curve in `unit`, by avg@k; `devices`: those that its evaluations occupied."""
    num_problems = len(records[0].successes) if records else 0
    samples = records[0].samples_per_problem if records else 0
    successes = _counts(records, num_problems)
    reward, errors = successes.sum(axis=1) / max(1, num_problems * samples), None
    if any(r.mean_reward is not None for r in records):
        reward = np.array([r.reward for r in records], dtype=np.float64)
        errors = _errors(records, reward)
    curve = Curve(
        run=run,
        steps=np.array([r.step for r in records], dtype=np.int64),
        generations=np.array([r.compute.generations for r in records], dtype=np.int64),
        compute=np.array([r.compute.spent(unit) for r in records], dtype=np.float64),
        reward=reward,
        successes=successes,
        samples_per_problem=samples,
        status=ending.status,
        status_reason=ending.reason,
        warnings=warnings,
        diverged_by=ending.diverged_by,
        standing=ending.standing,
        hours=np.array([r.compute.spent("device_hours") for r in records], dtype=np.float64),
        evaluation_hours=sum(r.seconds for r in records) * devices / 3600 or None,
        errors=errors,
        errors_estimated=errors is not None and any(r.standard_error is None for r in records),
        scores=_scores(records),
    )
    return replace(curve, collapsed_at=collapse(curve))


def _scores(records: Sequence[Record]) -> dict[str, FloatArray]:
    """By name, those that every record has: (records, problems)."""
    names = set.intersection(*(set(r.scores) for r in records)) if records else set()
    return {name: np.array([r.scores[name] for r in records], float) for name in sorted(names)}


def _errors(records: Sequence[Record], reward: FloatArray) -> FloatArray:
    """Standard errors of means, (records,): what was reported, and of the others how far records
    lie from the line between their neighbours, by the middle of them: a collapse is no error."""
    told = np.array([r.standard_error for r in records], dtype=np.float64)
    bends = reward[1:-1] - (reward[:-2] + reward[2:]) / 2
    rough = _UNKNOWN
    if bends.size:
        rough = float(np.quantile(np.abs(bends), _SHARE)) / (_NORMAL * math.sqrt(1.5))
    return np.maximum(np.where(np.isnan(told), rough, told), _LEAST)


def _counts(records: Sequence[Record], num_problems: int) -> IntArray:
    """The records' successes: (records, problems)."""
    shape = len(records), num_problems
    if all(r.samples_per_problem <= _BYTE for r in records):
        # Four times as fast as from the numbers one by one.
        joined = b"".join(bytes(r.successes) for r in records)
        return np.frombuffer(joined, dtype=np.uint8).reshape(shape).astype(np.int64)
    return np.array([r.successes for r in records], dtype=np.int64).reshape(shape)
