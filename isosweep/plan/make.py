"""The iso-compute plan: every (n, B, T) that spends a budget, and the runs that serve them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import MAX_VLLM_SHARE
from isosweep.costs.memory import checkpoint_bytes, run_bytes
from isosweep.costs.steps import budget_of, steps_for
from isosweep.errors import SettingError
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.cells import Cell, Plan, PlannedRun, Rejection
from isosweep.plan.rules import RULES
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.pricing import Pricing

# Between which multiples of a predicted time three runs of four are: published rows, by constants
# that were fitted without their source (`benchmarks/published.py`); and, assumed, runs on hardware
# whose times others have corrected.
PUBLISHED, MEASURED = (0.75, 1.5), (0.9, 1.1)


def make_plan(config: SweepConfig, tables: Sequence[Candidates]) -> tuple[Plan, dict[str, RunSpec]]:
    """The plan of all candidates, and what each of its runs is trained with, by run id.

    `tables`: the candidates of every variant of `config`. They are listed by variant, B, n, seed
    and budget. Raises SettingError when none is feasible, naming the rule that rejects most.
    """
    if not any(table.feasible.any() for table in tables):
        raise _nothing_feasible(config, tables)
    cells: list[Cell] = []
    runs: list[PlannedRun] = []
    rejected: list[Rejection] = []
    specs: dict[str, RunSpec] = {}
    for table in tables:
        for j, i in np.argwhere(table.listed.T):
            places = [Place(int(i), int(j), k) for k in range(len(table.budgets))]
            planned = [place for place in places if table.feasible[place]]
            refused = [_refused(table, place) for place in places if place not in planned]
            for seed in sorted(table.config.grid.seeds):
                rejected += [Rejection(**each, seed=seed) for each in refused]
                if planned:
                    spec = _spec(table, planned[-1], seed)
                    specs[spec.run_id] = spec
                    cells += [_cell(table, place, spec) for place in planned]
                    runs.append(_run(table, planned, spec))
    plan = Plan(
        budget_unit=config.unit,
        budgets=config.budgets,
        cells=tuple(cells),
        runs=tuple(runs),
        rejected=tuple(rejected),
        pricing=Pricing(
            dollars_per_hour=config.hardware.dollars_per_hour,
            spread=MEASURED if config.hardware.calibrated_from else PUBLISHED,
        ),
    )
    return plan, specs


def _engine(table: Candidates, at: tuple[int, int]) -> dict[str, Any]:
    """What is planned of vLLM, as a spec and a planned run have it."""
    engine = table.memory.engine
    if engine is None:
        return {}
    return {
        "vllm_share": float(engine.share[at]),
        "vllm_max_num_seqs": int(table.memory.concurrency[at]),
        "vllm_max_num_batched_tokens": int(engine.batched_tokens[at]),
        "vllm_max_model_len": engine.context_tokens,
        "vllm_cache_bytes": int(engine.cache_bytes[at]),
    }


def _setup(table: Candidates, place: Place) -> dict[str, Any]:
    """What a cell, a rejection and a run have in common, but for the seed."""
    return {
        "num_generations": int(table.num_generations[place.i]),
        "problems_per_batch": int(table.problems_per_batch[place.j]),
        "num_steps": int(table.steps[place]),
        "axes": table.variant.axes,
    }


def _spec(table: Candidates, place: Place, seed: int) -> RunSpec:
    return run_spec(
        table.config,
        num_generations=int(table.num_generations[place.i]),
        problems_per_batch=int(table.problems_per_batch[place.j]),
        seed=seed,
        micro_batch=int(table.memory.micro_batch[place[:2]]),
        **_engine(table, place[:2]),
    )


def _refused(table: Candidates, place: Place) -> dict[str, Any]:
    """Why a candidate is not planned, whatever its seed."""
    rules = table.broken_at(place)
    return _setup(table, place) | {
        "budget": float(table.budgets[place.k]),
        "rule": rules[0],
        "reason": RULES[rules[0]].reason(table, place),
        "rules": tuple(rules),
    }


def _cell(table: Candidates, place: Place, spec: RunSpec) -> Cell:
    return Cell(
        **_setup(table, place),
        seed=spec.seed,
        budget=float(table.budgets[place.k]),
        planned_compute=float(table.spent[place]),
        planned_flops=float(budget_of(int(table.steps[place]), float(table.flops[place[:2]]))),
        device_hours=float(table.run_seconds[place]) * table.config.devices_taken / 3600,
        run_id=spec.run_id,
    )


def _run(table: Candidates, planned: Sequence[Place], spec: RunSpec) -> PlannedRun:
    last, config = planned[-1], table.config
    steps, seconds = int(table.steps[last]), float(table.run_seconds[last])
    pair, records = last[:2], int(table.records[last])
    one = checkpoint_bytes(config.model.architecture, config.recipe, config.hardware)
    disk = run_bytes(one, config.checkpoint, seconds=seconds, num_steps=steps)
    return PlannedRun(
        **_setup(table, last),
        seed=spec.seed,
        run_id=spec.run_id,
        learning_rate=spec.learning_rate,
        milestones=tuple(float(table.budgets[place.k]) for place in planned),
        planned_flops=budget_of(steps, float(table.flops[pair])),
        planned_hardware_flops=budget_of(steps, float(table.hardware_flops[pair])),
        seconds=seconds,
        micro_batch=spec.micro_batch,
        **_engine(table, pair),
        records=records,
        evaluation_flops=records * table.evaluation_flops,
        evaluation_seconds=records * float(table.evaluation_seconds[pair]),
        checkpoint_bytes=one.total,
        checkpoints_peak_bytes=disk.running,
        checkpoints_kept_bytes=disk.kept,
    )


def _nothing_feasible(config: SweepConfig, tables: Sequence[Candidates]) -> SettingError:
    """The rule that rejects most, and what the candidate that breaks the fewest breaks; with the
    budget or the hardware that would free it, where these would."""
    listed = [np.broadcast_to(table.listed[..., None], table.steps.shape) for table in tables]
    pairs = list(zip(tables, listed, strict=True))
    counts = {
        name: sum(int((table.broken[name] & own).sum()) for table, own in pairs) for name in RULES
    }
    worst, seeds = max(counts, key=lambda name: counts[name]), len(config.grid.seeds)
    total = sum(int(own.sum()) for own in listed)
    table, place = _least_broken(tables)
    broken = table.broken_at(place)
    # Of a number of steps that breaks several rules the first one says enough.
    of_steps = [name for name in broken if RULES[name].bounds_steps]
    reasons = [RULES[name].reason(table, place) for name in broken if name not in of_steps[1:]]
    hardware = table.config.hardware
    if "hardware.memory_gb" in broken and hardware.device == "cuda" and hardware.sharding == "ddp":
        reasons.append(
            "hardware.devices_per_run=8 hardware.sharding=fsdp shares it among 8 devices"
        )
    unit = "FLOPs" if config.unit == "flops" else config.unit.replace("_", "-")
    remedies = [] if len(of_steps) == len(broken) else [hardware_that_works(table, place, broken)]
    remedies += [_budget_that_works(table, place)] if of_steps else []
    return SettingError(
        "budget",
        ",".join(f"{budget:g}" for budget in config.budgets),
        f"none of {total * seeds} candidates is feasible; {counts[worst] * seeds} break {worst}. "
        f"The nearest is n={table.num_generations[place.i]}, "
        f"B={table.problems_per_batch[place.j]} at {table.budgets[place.k]:g} {unit}: "
        f"{'; '.join(reasons)}",
        "" if "" in remedies else " ".join(remedies),
    )


def _least_broken(tables: Sequence[Candidates]) -> tuple[Candidates, Place]:
    """The candidate that breaks the fewest rules; of several the one whose T comes nearest to what
    is allowed, and of these the first, which has the smallest n and B."""
    best, found = math.inf, (tables[0], Place(0, 0, 0))
    for table in tables:
        grid = table.config.grid
        off = np.abs(np.log(table.steps / np.clip(table.steps, grid.min_steps, grid.max_steps)))
        # A rule more counts for more than any number of steps.
        score = sum(table.broken.values()) + off / (1 + off)
        score = np.where(table.listed[..., None], score, math.inf)
        if (least := float(score.min())) < best:
            place = np.unravel_index(np.argmin(score), score.shape)
            best, found = least, (table, Place(*map(int, place)))
    return found


def hardware_that_works(table: Candidates, place: Place, broken: Sequence[str]) -> str:
    """The smallest of conf/hardware whose memory has room for this pair of n and B; "" where none
    has, or another rule is broken that no budget mends."""
    if any(name != "hardware.memory_gb" for name in broken if not RULES[name].bounds_steps):
        return ""
    from omegaconf import OmegaConf

    from isosweep.config.refusals import config_directory

    usable = min(1 - table.config.hardware.memory_reserve, MAX_VLLM_SHARE)
    needed = float(table.memory.needed[place[:2]]) / usable / 1e9
    sizes: dict[str, float] = {
        file.stem: OmegaConf.select(OmegaConf.load(file), "memory_gb")
        for file in (config_directory() / "hardware").glob("*.yaml")
    }
    fitting = [name for name, size in sizes.items() if size >= needed and name != "cpu"]
    return f"hardware={min(fitting, key=lambda name: (sizes[name], name))}" if fitting else ""


def _budget_that_works(table: Candidates, place: Place) -> str:
    """The nearest budget whose steps keep all limits of the grid, in the fewest digits that buy
    them; "" where the limits leave no number of steps."""
    grid, recipe, task = table.config.grid, table.config.recipe, table.config.task
    updates = recipe.updates_per_generation
    cost, steps = float(table.cost[place[:2]]), int(table.steps[place])
    # From so many steps on, rounding to whole generations stays within the tolerance.
    least = max(grid.min_steps, 0.5 * updates / grid.tolerance)
    least = updates * math.ceil(least / updates)
    drawn = int(table.problems_per_batch[place.j]) * recipe.planned_draws
    generations = math.floor(grid.max_epochs * task.epoch_draws / drawn)
    most = min(grid.max_steps // updates, generations) * updates
    if least > most:
        return ""
    exact = budget_of(min(max(steps, least), most), cost)
    texts = (f"{exact:.{digits}g}" for digits in range(4, 18))
    wanted = steps_for(exact, cost, updates)
    return f"budget={next(t for t in texts if steps_for(float(t), cost, updates) == wanted)}"
