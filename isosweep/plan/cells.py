"""What a plan is made of: cells, runs, rejections; and the document that holds it."""

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

from isosweep.compute import BudgetUnit
from isosweep.errors import RecordError

# 2: axes, device-hours, memory and micro-batch; all rules that a rejected candidate breaks.
PLAN_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One feasible (n, B, T) at one budget, for one seed: its run read off at that budget.

    `device_hours`: what the run has taken by then, evaluation included. `axes`: the values of
    `grid.axes` that the run was given.
    """

    num_generations: int
    problems_per_batch: int
    num_steps: int
    seed: int
    budget: float
    planned_compute: float
    planned_flops: float
    device_hours: float
    run_id: str
    axes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A candidate that is not planned: `rule` names the setting, `reason` gives the numbers.

    `rules`: all settings that it breaks, `rule` the first of them.
    """

    num_generations: int
    problems_per_batch: int
    num_steps: int
    seed: int
    budget: float
    rule: str
    reason: str
    rules: tuple[str, ...]
    axes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One training run and the budgets at which cells read it off, ascending.

    `seconds`: predicted wall time to its last milestone; `micro_batch`: completions per device
    and forward pass; `vllm_share`: memory fraction given to vLLM, 0 without it.
    """

    run_id: str
    num_generations: int
    problems_per_batch: int
    seed: int
    learning_rate: float
    milestones: tuple[float, ...]
    num_steps: int
    planned_flops: float
    seconds: float
    micro_batch: int
    vllm_share: float = 0.0
    axes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells and rejections partition the candidates: n x B x seed x budget x axes.

    `mends`: for each setting that rejects, how many candidates it alone rejects, and with which
    value the nearest of them would be planned.
    """

    budget_unit: BudgetUnit
    budgets: tuple[float, ...]
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    rejected: tuple[Rejection, ...]
    mends: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def sharing(self) -> float:
        """FLOPs of the runs over the FLOPs of training every cell alone."""
        alone = math.fsum(cell.planned_flops for cell in self.cells)
        return math.fsum(run.planned_flops for run in self.runs) / alone

    @property
    def axes(self) -> list[dict[str, Any]]:
        """Every combination of values of `grid.axes` among the candidates; one, empty, without."""
        combinations: list[dict[str, Any]] = []
        for axes in [c.axes for c in self.cells] + [r.axes for r in self.rejected]:
            if axes not in combinations:
                combinations.append(axes)
        return combinations

    def of_axes(self, axes: dict[str, Any]) -> "Plan":
        """The part of the plan with these values of `grid.axes`."""
        return replace(
            self,
            cells=tuple(cell for cell in self.cells if cell.axes == axes),
            runs=tuple(run for run in self.runs if run.axes == axes),
            rejected=tuple(item for item in self.rejected if item.axes == axes),
        )

    @property
    def plan_id(self) -> str:
        """Hash of the runs and the budgets they are read at: what makes two plans the same."""
        key = [self.budget_unit, sorted((run.run_id, run.milestones) for run in self.runs)]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]


def plan_from_document(document: dict[str, Any]) -> Plan:
    """The plan that `plan.json` holds. Raises RecordError for another version of the format."""
    if document.get("version") != PLAN_VERSION:
        raise RecordError(
            f"plan.json has format {document.get('version')}, and this isosweep reads format "
            f"{PLAN_VERSION}: plan the sweep again in another sweep_dir"
        )
    return Plan(
        budget_unit=document["budget_unit"],
        budgets=tuple(document["budgets"]),
        cells=tuple(Cell(**cell) for cell in document["cells"]),
        runs=tuple(
            PlannedRun(**{**run, "milestones": tuple(run["milestones"])})
            for run in document["runs"]
        ),
        rejected=tuple(
            Rejection(**{**rejection, "rules": tuple(rejection["rules"])})
            for rejection in document["rejected"]
        ),
        mends={rule: (count, mend) for rule, (count, mend) in document["mends"].items()},
    )
