"""The iso-compute plan: every (n, B, T) that spends a budget, and the runs that serve them."""

from dataclasses import asdict
from typing import Any

import numpy as np

from isosweep import __version__
from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import rollout_flops
from isosweep.difficulty.variants import variants
from isosweep.errors import SettingError
from isosweep.plan.candidates import (
    BUDGET_RULES,
    RULES,
    Candidates,
    budget_that_works,
    enumerate_candidates,
    mends,
    reason,
)
from isosweep.plan.cells import PLAN_VERSION, Cell, Plan, PlannedRun, Rejection
from isosweep.plan.spec import RunSpec, passes_of, run_spec


def make_plan(config: SweepConfig) -> Plan:
    """Enumerate, cost and check every candidate; group the cells into runs.

    Raises SettingError when no candidate is feasible, naming the rule that rejects most.
    """
    tables = enumerate_candidates(config)
    if not any(table.feasible.any() for table in tables):
        raise _nothing_feasible(config, tables)
    cells: list[Cell] = []
    runs: list[PlannedRun] = []
    rejected: list[Rejection] = []
    for table in tables:
        _collect(table, cells, runs, rejected)
    return Plan(
        budget_unit=config.unit,
        budgets=config.budgets,
        cells=tuple(cells),
        runs=tuple(runs),
        rejected=tuple(rejected),
        mends=_mends(config, tables),
    )


def _collect(
    found: Candidates, cells: list[Cell], runs: list[PlannedRun], rejected: list[Rejection]
) -> None:
    """Append one variant's cells, runs and rejections, by B, n, seed and budget."""
    variant, config = found.variant, found.variant.config
    for j, B in enumerate(found.problems_per_batch.tolist()):
        for i, n in enumerate(found.num_generations.tolist()):
            if not found.listed[i, j]:
                continue
            for seed in sorted(config.grid.seeds):
                spec = _spec(found, i, j, seed) if found.longest[i, j] >= 0 else None
                milestones = []
                for k, budget in enumerate(config.budgets):
                    place = {"num_generations": n, "problems_per_batch": B, "seed": seed}
                    place |= {"num_steps": int(found.steps[i, j, k]), "axes": variant.axes}
                    if spec is None or not found.feasible[i, j, k]:
                        rejected.append(_rejection(found, i, j, k, budget, place))
                        continue
                    milestones.append(budget)
                    cells.append(_cell(found, i, j, k, spec, budget, place))
                if spec is not None:
                    runs.append(_run(found, i, j, spec, milestones))


def _spec(found: Candidates, i: int, j: int, seed: int) -> RunSpec:
    return run_spec(
        found.variant.config,
        num_generations=int(found.num_generations[i]),
        problems_per_batch=int(found.problems_per_batch[j]),
        seed=seed,
        micro_batch=int(found.memory.micro_batch[i, j]),
        vllm_share=float(found.memory.vllm_share[i, j]),
    )


def _cell(
    found: Candidates, i: int, j: int, k: int, spec: RunSpec, budget: float, place: dict[str, Any]
) -> Cell:
    steps = int(found.steps[i, j, k])
    devices = found.variant.config.hardware.devices_per_run
    return Cell(
        **place,
        budget=budget,
        planned_compute=float(found.spent[i, j, k]),
        planned_flops=steps * float(found.flops[i, j]),
        device_hours=float(found.run_seconds[i, j, k]) * devices / 3600,
        run_id=spec.run_id,
    )


def run_specs(config: SweepConfig) -> dict[str, RunSpec]:
    """What every run of the config's plan is trained with, by run id."""
    specs = {}
    for found in enumerate_candidates(config):
        for i, j in zip(*np.nonzero(found.longest >= 0), strict=True):
            for seed in config.grid.seeds:
                spec = _spec(found, int(i), int(j), seed)
                specs[spec.run_id] = spec
    return specs


def _rejection(
    found: Candidates, i: int, j: int, k: int, budget: float, place: dict[str, Any]
) -> Rejection:
    broken = int(found.broken[i, j, k])
    rules = tuple(rule for bit, rule in enumerate(RULES) if broken >> bit & 1)
    why = reason(found, rules[0], i, j, k)
    return Rejection(**place, budget=budget, rule=rules[0], reason=why, rules=rules)


def _run(found: Candidates, i: int, j: int, spec: RunSpec, milestones: list[float]) -> PlannedRun:
    last = int(found.longest[i, j])
    steps = int(found.steps[i, j, last])
    return PlannedRun(
        run_id=spec.run_id,
        num_generations=spec.num_generations,
        problems_per_batch=spec.problems_per_batch,
        seed=spec.seed,
        learning_rate=spec.learning_rate,
        milestones=tuple(milestones),
        num_steps=steps,
        planned_flops=steps * float(found.flops[i, j]),
        seconds=float(found.run_seconds[i, j, last]),
        micro_batch=spec.micro_batch,
        vllm_share=spec.vllm_share,
        axes=found.variant.axes,
    )


def _mends(config: SweepConfig, tables: tuple[Candidates, ...]) -> dict[str, tuple[int, str]]:
    """For each rule: how many candidates it alone rejects, and what would free the nearest."""
    found = {}
    seeds = len(config.grid.seeds)
    for bit, rule in enumerate(RULES):
        count, nearest = 0, ""
        for table in tables:
            alone = table.listed[..., None] & (table.broken == 1 << bit)
            count += int(alone.sum()) * seeds
            if alone.any() and not nearest:
                nearest = mends(table, rule, *_nearest(table, rule, alone))
        if count:
            found[rule] = (count, nearest)
    return found


def _nearest(table: Candidates, rule: str, where: Any) -> tuple[int, int, int]:
    """The candidate of `where` that comes nearest to keeping `rule`: (i, j, k)."""
    completions = table.num_generations[:, None, None] * table.problems_per_batch[None, :, None]
    distance = {
        "grid.tolerance": np.abs(table.spent / table.budgets - 1),
        "grid.min_steps": -table.steps,
        "grid.max_steps": table.steps,
        "grid.max_epochs": table.steps * table.problems_per_batch[None, :, None],
        "launcher.slurm.timeout_min": table.run_seconds,
    }.get(rule, completions)
    ranked = np.where(where, distance, np.inf)
    i, j, k = np.unravel_index(int(np.argmin(ranked)), ranked.shape)
    return int(i), int(j), int(k)


def _nothing_feasible(config: SweepConfig, tables: tuple[Candidates, ...]) -> SettingError:
    """The rule that rejects most, and what would free the candidate that breaks the fewest."""
    broken = [_broken_rules(table) for table in tables]
    seeds = len(config.grid.seeds)
    counts = {
        rule: seeds * sum(int((t.broken[t.listed] >> bit & 1).sum()) for t in tables)
        for bit, rule in enumerate(RULES)
    }
    worst = max(RULES, key=lambda rule: counts[rule])
    fewest = min(int(number.min()) for number in broken)
    table, number = next(
        pair for pair in zip(tables, broken, strict=True) if pair[1].min() == fewest
    )
    where = number == fewest
    bit = next(bit for bit in range(len(RULES)) if (table.broken[where] >> bit & 1).any())
    where &= (table.broken >> bit & 1) == 1
    i, j, k = _nearest(table, RULES[bit], where)
    rules = [rule for b, rule in enumerate(RULES) if int(table.broken[i, j, k]) >> b & 1]
    choices = [mends(table, rule, i, j, k) for rule in rules if rule not in BUDGET_RULES]
    if len(choices) < len(rules):
        choices.append(budget_that_works(table, i, j))
    total = seeds * sum(int(table.listed.sum()) * len(table.budgets) for table in tables)
    return SettingError(
        "budget",
        ",".join(f"{budget:g}" for budget in config.budgets),
        f"none of {total} candidates is feasible; {counts[worst]} break {worst}. The nearest is "
        f"n={table.num_generations[i]}, B={table.problems_per_batch[j]} at "
        f"{config.budgets[k]:g}: {'; '.join(reason(table, rule, i, j, k) for rule in rules)}",
        " ".join(choices),
    )


def _broken_rules(table: Candidates) -> Any:
    """How many rules each candidate breaks, (N, M, K); more than all for those not listed."""
    number = sum((table.broken >> bit & 1) for bit in range(len(RULES)))
    return np.where(table.listed[..., None], number, len(RULES) + 1)


def plan_document(plan: Plan, config: SweepConfig) -> dict[str, Any]:
    """What `plan.json` holds; `isosweep/plan.schema.json` describes it."""
    return {
        "version": PLAN_VERSION,
        "isosweep": __version__,
        "plan_id": plan.plan_id,
        "cost_models": [_cost_model(variant) for variant in variants(config)],
        **asdict(plan),
    }


def _cost_model(variant: Variant) -> dict[str, Any]:
    """What one variant's costs were computed from; FLOPs are of one rollout of the smallest n."""
    config = variant.config
    prompt = config.task.planned_prompt_tokens
    completion = config.task.planned_completion_tokens
    arch, smallest = config.model.architecture, float(min(config.grid.num_generations))
    passes = passes_of(arch, config.recipe, config.generation, smallest)
    phases = rollout_flops(arch, prompt, completion, passes)
    return {
        "axes": variant.axes,
        "model": config.model.name,
        "architecture": asdict(config.model.architecture),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "passes": asdict(passes),
        "flops_per_rollout": {name: float(value) for name, value in asdict(phases).items()},
        "hardware": asdict(config.hardware),
        "generation": asdict(config.generation),
    }
