"""Synthetic sweeps in the format that workers write."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import Curve, Ending
from isosweep.compute import Compute
from isosweep.files import write_json
from isosweep.plan.cells import Cell, Plan, PlannedRun, Rejection
from isosweep.store.attempts import Status, claim, newest
from isosweep.store.paths import SweepPaths
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_record,
    attempt_file,
)

NUM_PROBLEMS = 256
SAMPLES = 8
GENERATIONS = (2, 4, 8, 16, 32)
BUDGETS = (2e6, 4e6, 8e6, 16e6, 32e6)
# A decade longer: what has ended by the third of them has stopped.
LONG = (2e6, 4e6, 8e6, 2.4e7, 7.5e7)
BASE = 0.2
COST = 100.0  # FLOPs of one rollout

RewardAt = Callable[[float, int, int], float]


def paths_in(root: Path) -> SweepPaths:
    return SweepPaths(root=root / "sweep", runs=root / "runs")


def make_record(step: int, rollouts: int, reward: float, rng: np.random.Generator) -> Record:
    """A record whose problems differ in difficulty and whose mean is `reward`, up to rounding."""
    mean = min(1.0, max(0.0, reward))
    total = round(mean * NUM_PROBLEMS * SAMPLES)
    order = rng.permutation(NUM_PROBLEMS * SAMPLES) % NUM_PROBLEMS
    successes = np.bincount(order[:total], minlength=NUM_PROBLEMS)
    return Record(
        step=step,
        compute=Compute(generations=step, rollouts=rollouts, training_flops=rollouts * COST),
        successes=tuple(int(s) for s in successes),
        samples_per_problem=SAMPLES,
        completion_tokens=7.0,
        unix_time=0.0,
    )


def make_plan(
    generations: Sequence[int] = GENERATIONS,
    batches: Sequence[int] = (4,),
    seeds: Sequence[int] = (0, 1, 2),
    budgets: Sequence[float] = BUDGETS,
    rejected: Sequence[Rejection] = (),
) -> Plan:
    cells, runs = [], []
    for B in batches:
        for n in generations:
            for seed in seeds:
                run_id = f"run-n{n}-B{B}-s{seed}"
                step = n * B * COST
                mine = [
                    Cell(
                        num_generations=n,
                        problems_per_batch=B,
                        num_steps=round(budget / step),
                        seed=seed,
                        budget=budget,
                        planned_compute=round(budget / step) * step,
                        planned_flops=round(budget / step) * step,
                        device_hours=budget / 1e15,
                        run_id=run_id,
                    )
                    for budget in budgets
                ]
                cells += mine
                runs.append(
                    PlannedRun(
                        run_id=run_id,
                        num_generations=n,
                        problems_per_batch=B,
                        seed=seed,
                        learning_rate=1e-4,
                        milestones=tuple(budgets),
                        num_steps=mine[-1].num_steps,
                        planned_flops=mine[-1].planned_flops,
                        seconds=1.0,
                        micro_batch=4,
                    )
                )
    return Plan(
        budget_unit="flops",
        budgets=tuple(budgets),
        cells=tuple(cells),
        runs=tuple(runs),
        rejected=tuple(rejected),
    )


def write_plan(paths: SweepPaths, plan: Plan) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    write_json(paths.plan, {"version": 2, "plan_id": plan.plan_id, **asdict(plan)})


def write_run(
    paths: SweepPaths,
    run: PlannedRun,
    budgets: Sequence[float],
    reward: RewardAt,
    rng: np.random.Generator,
    noise: float,
) -> None:
    """Step 0, one record before the first budget, and one at each; the seed's luck is one
    offset for the whole run plus an independent part at each record."""
    records = [make_record(0, 0, BASE, rng)]
    luck = noise * rng.standard_normal()
    completions = run.num_generations * run.problems_per_batch
    for compute in (budgets[0] / 2, *budgets):
        step = round(compute / (completions * COST))
        value = reward(compute, run.num_generations, run.problems_per_batch)
        value += 0.7 * luck + 0.7 * noise * rng.standard_normal()
        records.append(make_record(step, step * completions, value, rng))
    write_records(paths, run.run_id, records)


def write_records(paths: SweepPaths, run_id: str, records: Iterable[Record]) -> None:
    """What the first attempt at a run leaves behind."""
    where = paths.run(run_id)
    where.root.mkdir(parents=True, exist_ok=True)
    append_attempt(where.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
    for record in records:
        append_record(where.records, 1, record)


def write_sweep(
    root: Path,
    reward: RewardAt,
    *,
    plan: Plan | None = None,
    noise: float = 0.004,
    model: str | None = None,
    seed: int = 0,
) -> SweepPaths:
    paths = paths_in(root)
    plan = plan or make_plan()
    write_plan(paths, plan)
    if model is not None:
        write_json(paths.config, {"model": {"name": model}})
    rng = np.random.default_rng(seed)
    for run in plan.runs:
        write_run(paths, run, plan.budgets, reward, rng, noise)
    return paths


def peaked(best: Callable[[float], float], fall: float = 0.03) -> RewardAt:
    """Reward that rises with compute and falls with the squared distance of log2 n from n*."""

    def reward(compute: float, n: int, B: int) -> float:
        distance = np.log2(n / best(compute))
        return float(0.4 + 0.05 * np.log2(compute / BUDGETS[0]) - fall * distance**2)

    return reward


# n* grows from 2 to 8 and settles.
REWARD = peaked(lambda C: min(8.0, 2 * C / BUDGETS[0]))
# What is analysed in a second.
SMALL = make_plan(generations=(2, 4, 8), seeds=(0, 1), budgets=BUDGETS[:3])


def records_file(paths: SweepPaths, run_id: str) -> Path:
    """The records that `write_run` writes."""
    return attempt_file(paths.run(run_id).records, 1)


def rewrite(
    paths: SweepPaths, change: Callable[[dict[str, Any]], dict[str, Any]], *run_ids: str
) -> SweepPaths:
    """The same sweep, each record of these runs, or of all, changed."""
    for file in paths.runs.rglob("records/*.jsonl"):
        if not run_ids or file.parts[-3] in run_ids:
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            lines = [line if line["kind"] == "attempt" else change(line) for line in lines]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return paths


def write_end(
    paths: SweepPaths, run_id: str, status: str, reason: str, diverged_by: str | None = None
) -> None:
    """What the run's worker said at its end."""
    run = paths.run(run_id)
    attempt = newest(run) or claim(run)
    replace(attempt, status=Status(status), reason=reason, diverged_by=diverged_by).write()


def raw_rewards(path: Path) -> dict[int, float]:
    """avg@k by step, from the file's lines with nothing but json."""
    rewards = {}
    for line in path.read_text().splitlines():
        document = json.loads(line)
        if document["kind"] == "record":
            asked = len(document["successes"]) * document["samples_per_problem"]
            rewards[document["step"]] = sum(document["successes"]) / asked
    return rewards


def made_curve(
    compute: FloatArray,
    reward: FloatArray | None = None,
    successes: IntArray | None = None,
    *,
    run: PlannedRun = SMALL.runs[0],
    problems: int = 0,
) -> Curve:
    """A finished run's records, with the rewards of its successes where no others are given."""
    at = np.arange(len(compute))
    counts = np.zeros((len(at), problems), dtype=np.int64) if successes is None else successes
    return Curve(
        run=run,
        ending=Ending(status="finished"),
        steps=at,
        generations=at,
        compute=compute,
        hours=np.zeros(len(at)),
        reward=counts.mean(axis=1) / SAMPLES if reward is None else reward,
        successes=counts,
        samples_per_problem=SAMPLES,
    )
