"""The iso-compute plan: every (n, B, T) that spends a budget, and the runs that serve them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.costs.checkpoints import checkpoint_bytes, run_bytes, written
from isosweep.costs.spread import spread
from isosweep.errors import SettingError
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.cells import Cell, Plan, PlannedRun, Rejection
from isosweep.plan.rules import (
    RULES,
    budget_that_works,
    memories_that_work,
    nearest,
    rules_of,
)
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.pricing import Pricing


def make_plan(config: SweepConfig, tables: Sequence[Candidates]) -> tuple[Plan, dict[str, RunSpec]]:
    """The plan of all candidates, and what each of its runs is trained with, by run id.

    `tables`: the candidates of every variant of `config`. Raises SettingError when none is
    feasible, naming the rule that rejects most.
    """
    if not any(table.feasible.any() for table in tables):
        raise _nothing_feasible(config, tables)
    parts = _Parts()
    for table in tables:
        parts.add(table)
    plan = Plan(
        budget_unit=config.unit,
        budgets=config.budgets,
        cells=tuple(parts.cells),
        runs=tuple(parts.runs),
        rejected=tuple(parts.rejected),
        mends=_mends(config, tables),
        pricing=Pricing(
            dollars_per_hour=config.hardware.dollars_per_hour, spread=spread(config.hardware)
        ),
    )
    return plan, parts.specs


@dataclass
class _Parts:
    """Cells, runs and rejections as they are gathered: by variant, B, n, seed and budget."""

    cells: list[Cell] = field(default_factory=list)
    runs: list[PlannedRun] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    specs: dict[str, RunSpec] = field(default_factory=dict)

    def add(self, table: Candidates) -> None:
        """Gather one variant's candidates."""
        seeds = sorted(table.config.grid.seeds)
        for j in range(len(table.problems_per_batch)):
            for i in range(len(table.num_generations)):
                if table.listed[i, j]:
                    for seed in seeds:
                        self._add_pair(table, i, j, seed)

    def _add_pair(self, table: Candidates, i: int, j: int, seed: int) -> None:
        """Gather the candidates of one pair of n and B, and one seed: those of one run."""
        spec = _spec(table, i, j, seed) if table.longest[i, j] >= 0 else None
        milestones = []
        for k, budget in enumerate(table.config.budgets):
            place = Place(i, j, k)
            if spec is None or not table.feasible[place]:
                self.rejected.append(_rejection(table, place, seed))
            else:
                milestones.append(budget)
                self.cells.append(_cell(table, place, spec))
        if spec is not None:
            self.specs[spec.run_id] = spec
            self.runs.append(_run(table, i, j, spec, tuple(milestones)))


def _engine(table: Candidates, i: int, j: int) -> dict[str, Any]:
    """What is planned of vLLM, as a spec and a planned run have it."""
    engine = table.memory.engine
    if engine is None:
        return {}
    return {
        "vllm_share": float(engine.share[i, j]),
        "vllm_max_num_seqs": int(table.memory.concurrency[i, j]),
        "vllm_max_num_batched_tokens": int(engine.batched_tokens[i, j]),
        "vllm_max_model_len": engine.context_tokens,
        "vllm_cache_bytes": int(engine.cache_bytes[i, j]),
    }


def _spec(table: Candidates, i: int, j: int, seed: int) -> RunSpec:
    return run_spec(
        table.config,
        num_generations=int(table.num_generations[i]),
        problems_per_batch=int(table.problems_per_batch[j]),
        seed=seed,
        micro_batch=int(table.memory.micro_batch[i, j]),
        **_engine(table, i, j),
    )


def _described(table: Candidates, place: Place, seed: int) -> dict[str, Any]:
    """What a cell and a rejection have in common."""
    return {
        "num_generations": int(table.num_generations[place.i]),
        "problems_per_batch": int(table.problems_per_batch[place.j]),
        "num_steps": int(table.steps[place]),
        "seed": seed,
        "budget": float(table.budgets[place.k]),
        "axes": table.variant.axes,
    }


def _cell(table: Candidates, place: Place, spec: RunSpec) -> Cell:
    return Cell(
        **_described(table, place, spec.seed),
        planned_compute=float(table.spent[place]),
        planned_flops=float(table.total(table.flops)[place]),
        device_hours=float(table.run_seconds[place]) * table.config.devices_taken / 3600,
        run_id=spec.run_id,
    )


def _rejection(table: Candidates, place: Place, seed: int) -> Rejection:
    rules = rules_of(int(table.broken[place]))
    return Rejection(
        **_described(table, place, seed),
        rule=rules[0].setting,
        reason=rules[0].reason(table.at(place)),
        rules=tuple(rule.setting for rule in rules),
    )


def _run(
    table: Candidates, i: int, j: int, spec: RunSpec, milestones: tuple[float, ...]
) -> PlannedRun:
    last = Place(i, j, int(table.longest[i, j]))
    steps, seconds = int(table.steps[last]), float(table.run_seconds[last])
    config, records = table.config, int(table.records[last])
    one = checkpoint_bytes(config.model.architecture, config.recipe, config.hardware)
    saves = written(one, config.checkpoint, seconds=seconds, num_steps=steps)
    disk = run_bytes(one, config.checkpoint, saves)
    return PlannedRun(
        run_id=spec.run_id,
        num_generations=spec.num_generations,
        problems_per_batch=spec.problems_per_batch,
        seed=spec.seed,
        learning_rate=spec.learning_rate,
        milestones=milestones,
        num_steps=steps,
        planned_flops=float(table.total(table.flops)[last]),
        planned_hardware_flops=float(table.total(table.hardware_flops)[last]),
        seconds=seconds,
        micro_batch=spec.micro_batch,
        **_engine(table, i, j),
        records=records,
        evaluation_flops=records * table.evaluation_flops,
        evaluation_seconds=records * float(table.evaluation_seconds[i, j]),
        checkpoint_bytes=one.total,
        checkpoints_peak_bytes=disk.running,
        checkpoints_kept_bytes=disk.kept,
        axes=table.variant.axes,
    )


def _mends(config: SweepConfig, tables: Sequence[Candidates]) -> dict[str, tuple[int, str]]:
    """For each rule: how many candidates it alone rejects, and what would free the nearest."""
    mends = {}
    seeds = len(config.grid.seeds)
    for bit, rule in enumerate(RULES):
        count, remedy = 0, ""
        for table in tables:
            alone = table.listed[..., None] & (table.broken == 1 << bit)
            count += int(alone.sum()) * seeds
            if alone.any() and not remedy:
                place = nearest(table, rule, alone)
                remedy = rule.remedy(table, place)
        if count:
            mends[rule.setting] = (count, remedy)
    return mends


def _nothing_feasible(config: SweepConfig, tables: Sequence[Candidates]) -> SettingError:
    """The rule that rejects most, and what the candidate that breaks the fewest breaks; with the
    budget and the memory that would free it, where these would."""
    seeds = len(config.grid.seeds)
    counts = {
        rule.setting: seeds * sum(int((t.broken[t.listed] >> bit & 1).sum()) for t in tables)
        for bit, rule in enumerate(RULES)
    }
    worst = max(counts, key=lambda setting: counts[setting])
    table, place = _least_broken(tables)
    rules = rules_of(int(table.broken[place]))
    memory = [rule for rule in rules if rule.setting == "hardware.memory_gb"]
    steps = [rule for rule in rules if rule.steps is not None]
    budget = budget_that_works(table, place) if steps else ""
    works = memories_that_work(table, place) if memory else ("",)
    total = seeds * sum(int(table.listed.sum()) * len(table.budgets) for table in tables)
    candidate = table.at(place)
    reasons = [rule.reason(candidate) for rule in rules]
    return SettingError(
        "budget",
        ",".join(f"{budget:g}" for budget in config.budgets),
        f"none of {total} candidates is feasible; {counts[worst]} break {worst}. The nearest is "
        f"n={candidate.num_generations}, B={candidate.problems_per_batch} at "
        f"{candidate.budget:g}: {'; '.join(reasons)}",
        ", or ".join(f"{memory} {budget}".strip() for memory in works)
        if len(memory) + len(steps) == len(rules)
        else "",
    )


def _least_broken(tables: Sequence[Candidates]) -> tuple[Candidates, Place]:
    """The candidate that breaks the fewest rules, and of those the nearest to keeping one."""
    numbers = [_broken_count(table) for table in tables]
    fewest = min(int(number.min()) for number in numbers)
    table, number = next(
        pair for pair in zip(tables, numbers, strict=True) if pair[1].min() == fewest
    )
    where = number == fewest
    bit = next(bit for bit in range(len(RULES)) if (table.broken[where] >> bit & 1).any())
    return table, nearest(table, RULES[bit], where & ((table.broken >> bit & 1) == 1))


def _broken_count(table: Candidates) -> Any:
    """How many rules each candidate breaks, (N, M, K); more than all for those not listed."""
    number = sum((table.broken >> bit & 1) for bit in range(len(RULES)))
    return np.where(table.listed[..., None], number, len(RULES) + 1)
