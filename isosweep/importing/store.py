"""Writes what was read of runs trained elsewhere: a sweep's directory, as any other's."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from isosweep.compute import BudgetUnit, Compute
from isosweep.errors import SettingError
from isosweep.files import JsonObject, read_json, write_json, write_text
from isosweep.importing.plan import run_id
from isosweep.importing.runs import ForeignRun
from isosweep.plan.cells import Plan
from isosweep.plan.document import Imported, plan_document
from isosweep.plan.output import plan_csv
from isosweep.store.attempts import Status, claim
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import Evaluation, Record, write_records


def store_sweep(
    paths: SweepPaths,
    plan: Plan,
    runs: Sequence[ForeignRun],
    imported: Imported,
    settings: JsonObject,
) -> JsonObject | None:
    """Write the sweep's plan and settings, and those of the runs that are not there yet.

    Returns the plan.json of the import that was there, None without one. Raises SettingError where
    the directory holds a sweep that was planned.
    """
    existing = read_json(paths.plan)
    if existing is not None and existing.get("kind") != "imported":
        rule = f"holds plan {existing.get('plan_id')}, whose runs are isosweep's own"
        raise SettingError("sweep", paths.root, rule, "sweep=NAME of another")
    paths.runs.mkdir(parents=True, exist_ok=True)
    paths.root.mkdir(parents=True, exist_ok=True)
    for run in runs:
        _store_run(paths.run(run_id(run)), run, plan.budget_unit)
    write_json(paths.config, settings)
    write_text(paths.plan_csv, plan_csv(plan))
    # Last: whoever finds a plan.json finds the rest.
    write_json(paths.plan, plan_document(plan, imported))
    return existing


def _store_run(files: RunPaths, run: ForeignRun, unit: BudgetUnit) -> None:
    if files.spec.exists():
        return
    files.root.mkdir(parents=True, exist_ok=True)
    now = time.time()
    records = list(_records(run, unit, now))
    write_records(files.records, records)
    last = records[-1]
    replace(
        claim(files),
        status=Status.FINISHED,
        worker=None,
        step=last.step,
        compute=last.compute,
        finished=last.compute,
        reward=last.reward,
        activity="",
        reason="trained elsewhere",
    ).write()
    # Last: a run without its spec is read again.
    spec = {"kind": "imported", "name": run.name, "sha256": run.digest}
    write_json(files.spec, {"version": 1, "run_id": files.run_id, "spec": spec})


def _records(run: ForeignRun, unit: BudgetUnit, now: float) -> Iterator[Record]:
    completions = run.num_generations * run.problems_per_batch
    for k, (step, spent) in enumerate(zip(run.steps.tolist(), run.compute.tolist(), strict=True)):
        yield record_of(run, k, _spent(unit, spent, step, step * completions), now)


def record_of(run: ForeignRun, k: int, compute: Compute, unix_time: float) -> Record:
    """The record of a run's evaluation `k`, with `compute` behind it."""
    told: dict[str, Any] = {"mean_reward": float(run.rewards[k])}
    if run.successes:
        told = {"successes": run.successes[k], "samples_per_problem": run.samples}
    elif run.errors is not None:
        told["standard_error"] = float(run.errors[k])
    sets = {name: float(of[k]) for name, of in run.sets.items()}
    return Record(
        step=int(run.steps[k]),
        compute=compute,
        unix_time=unix_time,
        sets={n: Evaluation(mean_reward=r) for n, r in sets.items() if r == r},
        **told,
    )


def _spent(unit: BudgetUnit, spent: float, step: int, rollouts: int) -> Compute:
    """Compute in its unit; what else a run spent is not known but for its rollouts."""
    match unit:
        case "flops":
            return Compute(generations=step, rollouts=rollouts, training_flops=spent)
        case "tokens":
            return Compute(generations=step, rollouts=rollouts, completion_tokens=round(spent))
        case "device_hours":
            return Compute(generations=step, rollouts=rollouts, device_seconds=spent * 3600)
        case "rollouts":
            return Compute(generations=step, rollouts=round(spent))
