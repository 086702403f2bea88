"""plan.json: the plan, what made it, and of an import where its runs were read from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any

from annotated_types import Ge, MinLen
from pydantic import AfterValidator, TypeAdapter, ValidationError

from isosweep.errors import RecordError
from isosweep.plan.cells import Plan
from isosweep.version import __version__

# 2: axes, device-hours, memory and micro-batch; all rules that a rejected candidate breaks.
PLAN_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something about what was read that an answer may depend on."""

    kind: Annotated[str, MinLen(1)]
    """What it is: a kind of isosweep/words/import.j2."""
    count: Annotated[int, Ge(0)] = 0
    """How many rows or runs it is of."""
    example: str = ""
    """One of them."""
    value: float | None = None
    """A number of the kind, in the unit that it has there."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where runs that were trained elsewhere were read from, and how."""

    source: tuple[str, ...]
    """Files, directories or addresses."""
    columns: dict[str, str | float]
    """The column that each quantity was read from, or the number that all rows share. Each in the
    unit of its setting of the import group."""
    guessed: tuple[str, ...]
    """Quantities whose columns were found by their usual names."""
    reward_range: tuple[float, float]
    """The lowest and highest reward, of which records have shares. Reward, as it was read."""
    notes: tuple[Note, ...]
    """What else was done to read them."""


def _consistent(plan: Plan) -> Plan:
    """The plan. Raises ValueError for a cell of no run, or beyond what its run reaches.

    A run that was trained elsewhere may have ended before a budget of its cells.
    """
    runs = {run.run_id: run for run in plan.runs}
    for cell in plan.cells:
        run = runs.get(cell.run_id)
        if run is None:
            raise ValueError(f"a cell is of run {cell.run_id}, which is not among the runs")
        planned = cell.planned_flops is not None
        if planned and (cell.num_steps > run.num_steps or cell.budget not in run.milestones):
            reached = f"{run.num_steps} steps and budgets {', '.join(map(str, run.milestones))}"
            here = f"a cell of {cell.num_steps} steps at budget {cell.budget}"
            raise ValueError(f"{here} is of run {run.run_id}, which has {reached}")
    return plan


@cache
def _plan() -> TypeAdapter[Plan]:
    return TypeAdapter(Annotated[Plan, AfterValidator(_consistent)])


def plan_document(plan: Plan, imported: Imported | None = None) -> dict[str, Any]:
    """What plan.json holds of a plan, or of runs that were trained elsewhere."""
    return {
        "version": PLAN_VERSION,
        "isosweep": __version__,
        "plan_id": plan.plan_id,
        "kind": "planned" if imported is None else "imported",
        "imported": imported and asdict(imported),
        **asdict(plan),
    }


def plan_from_document(document: Mapping[str, Any]) -> Plan:
    """The plan that plan.json holds. Raises RecordError for another version, or no plan."""
    if document.get("version") != PLAN_VERSION:
        raise RecordError(
            f"plan.json has format {document.get('version')}, and this isosweep reads format "
            f"{PLAN_VERSION}: plan the sweep again under another name"
        )
    remedy = "plan it anew: the sweep's own command with mode=plan"
    try:
        plan = _plan().validate_python(dict(document))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        said = f"{name}: {first['msg']}" if name else first["msg"].removeprefix("Value error, ")
        raise RecordError(f"plan.json: {said}; {remedy}") from None
    if plan.plan_id != document.get("plan_id", plan.plan_id):
        changed = f"plan.json says plan {document['plan_id']}, and its runs are those of"
        raise RecordError(f"{changed} {plan.plan_id}; {remedy}")
    return plan
