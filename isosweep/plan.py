"""The iso-compute plan: every (n, B, T) that spends a budget, and the runs that serve them."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from isosweep import __version__
from isosweep.compute import BudgetUnit
from isosweep.config import SweepConfig
from isosweep.errors import SettingError
from isosweep.flops import rollout_flops
from isosweep.spec import RunSpec, resolve_micro_batch, run_spec

PLAN_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One feasible (n, B, T) at one budget, for one seed: its run read off at that budget."""

    num_generations: int
    problems_per_batch: int
    num_steps: int
    seed: int
    budget: float
    planned_compute: float
    planned_flops: float
    run_id: str


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A candidate that is not planned: `rule` names the setting, `reason` gives the numbers."""

    num_generations: int
    problems_per_batch: int
    seed: int
    budget: float
    rule: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One training run and the budgets at which cells read it off, ascending."""

    run_id: str
    num_generations: int
    problems_per_batch: int
    seed: int
    learning_rate: float
    milestones: tuple[float, ...]
    num_steps: int
    planned_flops: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells and rejections partition the candidates: n x B x seed x budget.

    `sharing` is the FLOPs of the runs over the FLOPs of training every cell alone.
    """

    budget_unit: BudgetUnit
    budgets: tuple[float, ...]
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    rejected: tuple[Rejection, ...]

    @property
    def sharing(self) -> float:
        alone = math.fsum(cell.planned_flops for cell in self.cells)
        return math.fsum(run.planned_flops for run in self.runs) / alone

    @property
    def plan_id(self) -> str:
        """Hash of the runs and the budgets they are read at: what makes two plans the same."""
        key = [self.budget_unit, sorted((run.run_id, run.milestones) for run in self.runs)]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]


def completion_cost(config: SweepConfig) -> tuple[float, float]:
    """Planned cost of one rollout: (in the budget's unit, in FLOPs), at the task's mean lengths."""
    prompt = config.task.planned_prompt_tokens
    completion = config.task.planned_completion_tokens
    phases = rollout_flops(
        config.model.architecture, prompt, completion, reference_model=config.recipe.beta > 0
    )
    flops = float(phases.total)
    match config.unit:
        case "flops":
            return flops, flops
        case "tokens":
            return prompt + completion, flops
        case "rollouts":
            return 1.0, flops


def make_plan(config: SweepConfig) -> Plan:
    """Enumerate, cost and check every candidate; group the cells into runs.

    Raises SettingError when no candidate is feasible, naming the rule that rejects most.
    """
    cost, flops = completion_cost(config)
    cells: list[Cell] = []
    rejected: list[Rejection] = []
    runs: list[PlannedRun] = []
    grid = config.grid
    for problems in sorted(grid.problems_per_batch):
        for generations in sorted(grid.num_generations):
            completions = problems * generations
            for seed in sorted(grid.seeds):
                run_cells = []
                spec: RunSpec | None = None
                for budget in config.budgets:
                    steps = _nearest_steps(budget, cost * completions)
                    broken = _broken_rule(config, generations, problems, steps, budget, cost)
                    if broken is not None:
                        rejected.append(
                            Rejection(
                                num_generations=generations,
                                problems_per_batch=problems,
                                seed=seed,
                                budget=budget,
                                rule=broken[0],
                                reason=broken[1],
                            )
                        )
                        continue
                    spec = spec or run_spec(
                        config,
                        num_generations=generations,
                        problems_per_batch=problems,
                        seed=seed,
                    )
                    run_cells.append(
                        Cell(
                            num_generations=generations,
                            problems_per_batch=problems,
                            num_steps=steps,
                            seed=seed,
                            budget=budget,
                            planned_compute=steps * completions * cost,
                            planned_flops=steps * completions * flops,
                            run_id=spec.run_id,
                        )
                    )
                if spec is not None:
                    runs.append(_run(spec, run_cells))
                    cells.extend(run_cells)
    if not cells:
        raise _nothing_feasible(rejected)
    return Plan(
        budget_unit=config.unit,
        budgets=config.budgets,
        cells=tuple(cells),
        runs=tuple(runs),
        rejected=tuple(rejected),
    )


def _nearest_steps(budget: float, step_cost: float) -> int:
    return max(1, math.floor(budget / step_cost + 0.5))


def _run(spec: RunSpec, cells: list[Cell]) -> PlannedRun:
    longest = cells[-1]
    return PlannedRun(
        run_id=spec.run_id,
        num_generations=spec.num_generations,
        problems_per_batch=spec.problems_per_batch,
        seed=spec.seed,
        learning_rate=spec.learning_rate,
        milestones=tuple(cell.budget for cell in cells),
        num_steps=longest.num_steps,
        planned_flops=longest.planned_flops,
    )


def _broken_rule(
    config: SweepConfig, n: int, B: int, steps: int, budget: float, cost: float
) -> tuple[str, str] | None:
    """The first rule that a candidate breaks, as (setting, reason with numbers), or None."""
    grid, problems = config.grid, config.task.num_train_problems
    completions = n * B
    spent = steps * completions * cost
    if completions > grid.max_completions_per_step:
        return "grid.max_completions_per_step", (
            f"n x B = {n} x {B} = {completions} exceeds {grid.max_completions_per_step}"
        )
    if problems < B:
        return "task.num_train_problems", f"B = {B} exceeds the {problems} training problems"
    if resolve_micro_batch(config.recipe, completions) is None:
        return "recipe.micro_batch", (
            f"n x B = {n} x {B} = {completions} is not a multiple of {config.recipe.micro_batch}"
        )
    if steps < grid.min_steps:
        return "grid.min_steps", f"T = {steps} is below {grid.min_steps}"
    if steps > grid.max_steps:
        return "grid.max_steps", f"T = {steps} exceeds {grid.max_steps}"
    if abs(spent - budget) > grid.tolerance * budget:
        return "grid.tolerance", (
            f"T = {steps} spends {spent:.4g}, {abs(spent / budget - 1):.1%} off {budget:.4g}; "
            f"allowed {grid.tolerance:.1%}"
        )
    epochs = steps * B / problems
    if epochs > grid.max_epochs:
        return "grid.max_epochs", (
            f"T x B = {steps} x {B} passes {epochs:.1f} times over {problems} problems; "
            f"allowed {grid.max_epochs:g}"
        )
    return None


def _nothing_feasible(rejected: list[Rejection]) -> SettingError:
    rules = [rejection.rule for rejection in rejected]
    worst = max(sorted(set(rules)), key=rules.count)
    of_rule = [rejection for rejection in rejected if rejection.rule == worst]
    nearest = {
        "grid.max_completions_per_step": lambda r: r.num_generations * r.problems_per_batch,
        "task.num_train_problems": lambda r: r.problems_per_batch,
        "recipe.micro_batch": lambda r: r.num_generations,
    }
    example = of_rule[-1] if worst in ("grid.max_steps", "grid.max_epochs") else of_rule[0]
    advice = {
        "grid.min_steps": "a larger budget, or grid.min_steps=1",
        "grid.max_steps": "a smaller budget, or a larger grid.max_steps",
        "grid.max_epochs": "a smaller budget, or a larger task.num_train_problems",
        "grid.tolerance": "a larger budget (more steps to round), or a larger grid.tolerance",
    }.get(worst) or f"{worst}={nearest[worst](example)}"
    return SettingError(
        "budget",
        ",".join(f"{b:g}" for b in sorted({r.budget for r in rejected})),
        f"none of {len(rejected)} candidates is feasible; {len(of_rule)} break {worst}: "
        f"for n={example.num_generations}, B={example.problems_per_batch}, {example.reason}",
        advice,
    )


def plan_document(plan: Plan, config: SweepConfig) -> dict[str, Any]:
    """What `plan.json` holds."""
    cost, flops = completion_cost(config)
    return {
        "version": PLAN_VERSION,
        "isosweep": __version__,
        "plan_id": plan.plan_id,
        "cost_model": {
            "prompt_tokens": config.task.planned_prompt_tokens,
            "completion_tokens": config.task.planned_completion_tokens,
            "cost_per_rollout": cost,
            "flops_per_rollout": flops,
            "model": config.model.name,
            **asdict(config.model.architecture),
        },
        **asdict(plan),
    }


def plan_from_document(document: dict[str, Any]) -> Plan:
    """The plan that `plan.json` holds."""
    return Plan(
        budget_unit=document["budget_unit"],
        budgets=tuple(document["budgets"]),
        cells=tuple(Cell(**cell) for cell in document["cells"]),
        runs=tuple(
            PlannedRun(**{**run, "milestones": tuple(run["milestones"])})
            for run in document["runs"]
        ),
        rejected=tuple(Rejection(**rejection) for rejection in document["rejected"]),
    )
