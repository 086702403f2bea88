"""From records to curves: which of a run's records can be compared, and what they score. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import Curve, Ending, SetReading
from isosweep.compute import BudgetUnit
from isosweep.metrics import METRICS, MetricName
from isosweep.plan.cells import PlannedRun
from isosweep.store.records import Evaluation, Record

# The largest number that a byte holds.
_BYTE = 255
# Standard errors of rewards that nobody reported: of records too few to tell, and the least.
_UNKNOWN, _LEAST = 0.03, 1e-3
# A share of all distances, and where a normal distribution has it, in standard deviations.
_SHARE, _NORMAL = 0.75, 1.150


def metrics_of(record: Evaluation) -> set[MetricName]:
    """The metrics that a record can be scored by: of one with a mean alone, avg."""
    if record.mean_reward is not None:
        return {"avg"}
    return {name for name, score in METRICS.items() if score is not None or name in record.scores}


def comparable(
    records: Sequence[Record], metric: MetricName, evaluation_set: str | None
) -> tuple[list[Record], list[str]]:
    """A run's records of one evaluation set that can be scored by `metric`, of the shape (problems,
    samples) that most of them have; and of those left out, how many and why, in words."""
    left_out = []

    def keep(kept: list[Record], among: Sequence[Record], why: str) -> list[Record]:
        if len(kept) < len(among):
            left_out.append(f"{len(among) - len(kept)} records left out: {why}")
        return kept

    name = evaluation_set
    if name is not None:
        of_set = [replace(r, **vars(r.sets[name])) for r in records if name in r.sets]
        records = keep(of_set, records, f"nothing of the evaluation set {name}")
    told = [record for record in records if metric in metrics_of(record)]
    records = keep(told, records, f"no {metric}@k in them")
    shapes = Counter(map(_shape, records))
    ((usual, _),) = shapes.most_common(1) or (((0, 0), 0),)
    alike = [record for record in records if _shape(record) == usual]
    return keep(alike, records, f"not {usual[0]} x {usual[1]} samples"), left_out


def _shape(record: Record) -> tuple[int, int]:
    return len(record.successes), record.samples_per_problem


def set_readings(records: Sequence[Record]) -> list[SetReading]:
    """What a run's records have of each set, the main evaluation first."""
    found = []
    for name in (None, *dict.fromkeys(name for record in records for name in record.sets)):
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
    return found


def mean_readings(readings: Sequence[SetReading]) -> tuple[SetReading, ...]:
    """Readings of several runs as one for each set, in their order."""
    by_name: dict[str | None, list[SetReading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)
    found = []
    for same in by_name.values():
        before = [reading.before for reading in same if reading.before is not None]
        last = float(np.mean([reading.last for reading in same]))
        mean = float(np.mean(before)) if before else None
        found.append(replace(same[0], before=mean, last=last, num_runs=len(same)))
    return tuple(found)


def make_curve(
    run: PlannedRun,
    records: Sequence[Record],
    unit: BudgetUnit,
    ending: Ending,
    metric: MetricName = "avg",
    difficulty: tuple[float, float] | None = None,
) -> Curve:
    """The curve in `unit` of comparable records, by `metric`, on the problems whose success rate
    at step 0 lies in `difficulty`; without a record where none of them does, or none is known."""
    right, k = _counts(records), records[0].samples_per_problem if records else 0
    chosen = np.arange(right.shape[1])
    if difficulty is not None and records:
        low, high = difficulty
        rates = right[0] / k if records[0].step == 0 else np.zeros(0)
        chosen = np.flatnonzero((rates >= low) & (rates <= high))
        if not chosen.size:
            return make_curve(run, (), unit, ending)
    points: IntArray | FloatArray = right[:, chosen]
    of, errors = k, None
    if any(record.mean_reward is not None for record in records):
        reward = np.array([record.reward for record in records], dtype=np.float64)
        errors = _errors(records, reward)
    else:
        if records and (score := METRICS[metric]) is not None:
            scored = score(right[:, chosen], k)
            points, of = scored.points, scored.of
        elif records:
            points, of = np.array([record.scores[metric] for record in records])[:, chosen], 1
        reward = points.sum(axis=1) / max(1, points.shape[1] * of)
    return Curve(
        run=run,
        ending=ending,
        steps=np.array([r.step for r in records], dtype=np.int64),
        generations=np.array([r.compute.generations for r in records], dtype=np.int64),
        compute=np.array([r.compute.spent(unit) for r in records], dtype=np.float64),
        hours=np.array([r.compute.spent("device_hours") for r in records], dtype=np.float64),
        reward=reward,
        successes=points,
        samples_per_problem=of,
        errors=errors,
    )


def _errors(records: Sequence[Record], reward: FloatArray) -> FloatArray:
    """Standard errors of means, (records,): what was reported, and of the others how far records
    lie from the mean of their neighbours, by the upper quartile: a collapse is no error."""
    told = np.array([r.standard_error for r in records], dtype=np.float64)
    bends = reward[1:-1] - (reward[:-2] + reward[2:]) / 2
    rough = _UNKNOWN
    if bends.size:
        rough = float(np.quantile(np.abs(bends), _SHARE)) / (_NORMAL * math.sqrt(1.5))
    return np.maximum(np.where(np.isnan(told), rough, told), _LEAST)


def _counts(records: Sequence[Record]) -> IntArray:
    """The records' successes: (records, problems)."""
    shape = len(records), len(records[0].successes) if records else 0
    if all(r.samples_per_problem <= _BYTE for r in records):
        # Four times as fast as from the numbers one by one.
        joined = b"".join(bytes(r.successes) for r in records)
        return np.frombuffer(joined, dtype=np.uint8).reshape(shape).astype(np.int64)
    return np.array([r.successes for r in records], dtype=np.int64).reshape(shape)
