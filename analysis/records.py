"""Curves from records: what of a run's records can be compared, and what it scores. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from isosweep.analysis.curves import Curve, collapse
from isosweep.compute import BudgetUnit
from isosweep.heldout import scored
from isosweep.plan.cells import PlannedRun
from isosweep.store.records import Record


def comparable(records: tuple[Record, ...], where: str, problems: list[str]) -> list[Record]:
    """Records with the shape (problems, samples) that most of the run's records have."""
    shapes = Counter((len(r.successes), r.samples_per_problem) for r in records)
    if len(shapes) <= 1:
        return list(records)
    usual = shapes.most_common(1)[0][0]
    kept = [r for r in records if (len(r.successes), r.samples_per_problem) == usual]
    dropped = len(records) - len(kept)
    problems.append(f"{where}: {dropped} records left out: not {usual[0]} x {usual[1]} samples")
    return kept


def of_difficulty(records: list[Record], difficulty: tuple[float, float]) -> list[Record]:
    """The records with only the problems whose success rate at step 0 lies in the range.

    A run without a record at step 0 does not know, and is left without problems.
    """
    low, high = difficulty
    first = next((r for r in records if r.step == 0), None)
    if first is None:
        return []
    rates = np.array(first.successes) / first.samples_per_problem
    kept = np.flatnonzero((rates >= low) & (rates <= high))
    return [replace(r, successes=tuple(r.successes[i] for i in kept)) for r in records]


def make_curve(
    run: PlannedRun,
    records: Sequence[Record],
    unit: BudgetUnit,
    state: Mapping[str, Any],
    metric: str,
) -> Curve:
    """The run's curve in `unit`, scored by `metric`; `state`: what the run last reported."""
    num_problems = len(records[0].successes) if records else 0
    samples = records[0].samples_per_problem if records else 0
    successes = np.array([r.successes for r in records], dtype=np.int64)
    successes, samples = scored(successes.reshape(len(records), num_problems), samples, metric)
    reward = successes.sum(axis=1) / max(1, num_problems * samples)
    return Curve(
        run=run,
        steps=np.array([r.step for r in records], dtype=np.int64),
        generations=np.array([r.compute.generations for r in records], dtype=np.int64),
        compute=np.array([r.compute.spent(unit) for r in records], dtype=np.float64),
        flops=np.array([r.compute.flops for r in records], dtype=np.float64),
        reward=reward,
        successes=successes,
        samples_per_problem=samples,
        status=None if state.get("status") is None else str(state["status"]),
        status_reason=None if state.get("reason") is None else str(state["reason"]),
        diverged_by=state.get("diverged_by"),
        collapsed_at=collapse(reward, num_problems * samples, state.get("diverged_by")),
    )
