"""The iso-compute plan: every (n, B, T) that spends a budget, and the runs that serve them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.costs.checkpoints import checkpoint_bytes, run_bytes, written
from isosweep.costs.fit import MAX_VLLM_SHARE
from isosweep.costs.steps import whole_generations
from isosweep.errors import SettingError
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.cells import Cell, Plan, PlannedRun, Rejection
from isosweep.plan.rules import RULES, Rule, rules_of
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.pricing import Pricing

# Between which multiples of a predicted time three runs of four are: published rows, by constants
# that were fitted without their source (`benchmarks/published.py`); and, assumed, runs on hardware
# whose times others have corrected.
_PUBLISHED, _MEASURED = (0.75, 1.5), (0.9, 1.1)


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
        pricing=Pricing(
            dollars_per_hour=config.hardware.dollars_per_hour,
            spread=_MEASURED if config.hardware.calibrated_from else _PUBLISHED,
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


def _nothing_feasible(config: SweepConfig, tables: Sequence[Candidates]) -> SettingError:
    """The rule that rejects most, and what the candidate that breaks the fewest breaks; with the
    budget or the memory that would free it, where these would."""
    seeds = len(config.grid.seeds)
    counts = {
        rule.setting: seeds * sum(int((t.broken[t.listed] >> bit & 1).sum()) for t in tables)
        for bit, rule in enumerate(RULES)
    }
    worst = max(counts, key=lambda setting: counts[setting])
    table, place = _least_broken(tables)
    rules = rules_of(int(table.broken[place]))
    total = seeds * sum(int(table.listed.sum()) * len(table.budgets) for table in tables)
    candidate, unit = table.at(place), table.config.unit.replace("_", "-")
    # Of a number of steps that breaks several rules the first one says enough.
    of_steps = [rule for rule in rules if rule.bounds_steps]
    reasons = [rule.reason(candidate) for rule in rules if rule not in of_steps[1:]]
    return SettingError(
        "budget",
        ",".join(f"{budget:g}" for budget in config.budgets),
        f"none of {total} candidates is feasible; {counts[worst]} break {worst}. The nearest is "
        f"n={candidate.num_generations}, B={candidate.problems_per_batch} at "
        f"{candidate.budget:g} {'FLOPs' if unit == 'flops' else unit}: {'; '.join(reasons)}",
        _settings_that_work(table, place, rules),
    )


def _least_broken(tables: Sequence[Candidates]) -> tuple[Candidates, Place]:
    """The candidate that breaks the fewest rules; of several the one whose T comes nearest to what
    is allowed, and of these the first, which has the smallest n and B."""
    best: tuple[float, float] = (math.inf, math.inf)
    for table in tables:
        rules: Any = sum((table.broken >> bit & 1) for bit in range(len(RULES)))
        grid = table.config.grid
        allowed = np.clip(table.steps, grid.min_steps, grid.max_steps)
        off = np.abs(np.log(table.steps / allowed))
        for place in table.places(np.broadcast_to(table.listed[..., None], off.shape)):
            if (found := (float(rules[place]), float(off[place]))) < best:
                best, nearest = found, (table, place)
    return nearest


def _settings_that_work(table: Candidates, place: Place, rules: Sequence[Rule]) -> str:
    """With which memory and budget this pair of n and B keeps `rules`; "" where these do not
    suffice."""
    hardware, settings = table.config.hardware, []
    if any(rule.setting == "hardware.memory_gb" for rule in rules):
        usable = min(1 - hardware.memory_reserve, MAX_VLLM_SHARE)
        needed = float(table.memory.needed[place[:2]]) / usable
        settings.append(f"hardware.memory_gb={math.ceil(needed / 1e9)}")
    if any(rule.bounds_steps for rule in rules):
        settings.append(_budget_that_works(table, place))
    others = [r for r in rules if not r.bounds_steps and r.setting != "hardware.memory_gb"]
    return "" if others or "" in settings else " ".join(settings)


def _budget_that_works(table: Candidates, place: Place) -> str:
    """The nearest budget whose steps keep all limits of the grid, in the fewest digits that buy
    them; "" where the limits leave no number of steps."""
    grid, updates = table.config.grid, table.config.recipe.updates_per_generation
    # From so many steps on, rounding to whole generations stays within the tolerance.
    least = whole_generations(max(grid.min_steps, 0.5 * updates / grid.tolerance), updates)
    generations = math.floor(grid.max_epochs / table.epochs(place, updates))
    most = min(grid.max_steps // updates, generations) * updates
    if least > most:
        return ""
    exact = table.budget_at(place, min(max(int(table.steps[place]), least), most))
    texts = (f"{exact:.{digits}g}" for digits in range(4, 17))
    steps = table.steps_to(place, exact)
    fewest = (text for text in texts if table.steps_to(place, float(text)) == steps)
    return f"budget={next(fewest, repr(exact))}"
