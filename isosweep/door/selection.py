"""Part of a sweep's plan: some of its seeds, n, B and budgets."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from isosweep.errors import SettingError
from isosweep.plan.cells import Cell, Plan, PlannedRun
from isosweep.words.numbers import short

# Budgets are typed in a few digits.
_CLOSE = 0.005


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which runs and budgets are chosen; None: all. Budgets are in the plan's unit."""

    seeds: tuple[int, ...] | None = None
    n: tuple[int, ...] | None = None
    B: tuple[int, ...] | None = None
    budgets: tuple[float, ...] | None = None

    def __str__(self) -> str:
        """As it was typed: seeds=[0, 1], n=[8]."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{name}=[{_listed(values)}]" for name, values in given if values)

    def narrowed(self, further: "Selection") -> "Selection":
        """Both: what `further` chooses of this."""
        given = {f.name: getattr(further, f.name) for f in fields(self)}
        return replace(self, **{name: each for name, each in given.items() if each is not None})

    def of(self, plan: Plan) -> Plan:
        """The part of the plan that is chosen. Raises SettingError where that has no run."""
        cells = tuple(cell for cell in plan.cells if self._holds(cell))
        own: dict[str, list[Cell]] = {}
        for cell in cells:
            own.setdefault(cell.run_id, []).append(cell)
        if not own:
            raise SettingError("select", self, "no run of the sweep is all of that")
        return replace(
            plan,
            budgets=tuple(sorted({cell.budget for cell in cells})),
            cells=cells,
            runs=tuple(
                self._until(run, own[run.run_id], plan) for run in plan.runs if run.run_id in own
            ),
            rejected=tuple(each for each in plan.rejected if self._holds(each)),
        )

    def _holds(self, item: Any) -> bool:
        chosen = (
            (self.seeds, item.seed),
            (self.n, item.num_generations),
            (self.B, item.problems_per_batch),
            (self.budgets, item.budget),
        )
        return all(values is None or value in values for values, value in chosen)

    def _until(self, run: PlannedRun, own: Sequence[Cell], plan: Plan) -> PlannedRun:
        """The run as though it had been planned for its chosen budgets."""
        ends = max(own, key=lambda cell: cell.budget)
        last = max(
            (cell for cell in plan.cells if cell.run_id == run.run_id),
            key=lambda cell: cell.budget,
        )
        seconds = run.seconds
        if seconds is not None and ends.device_hours and last.device_hours:
            seconds *= ends.device_hours / last.device_hours
        return replace(
            run,
            milestones=tuple(sorted(cell.budget for cell in own)),
            num_steps=ends.num_steps,
            planned_flops=ends.planned_flops,
            seconds=seconds,
        )


def selection(
    plan: Plan,
    *,
    seeds: int | Iterable[int] | None,
    n: int | Iterable[int] | None,
    B: int | Iterable[int] | None,
    budgets: float | Iterable[float] | None,
) -> Selection:
    """What is chosen of the plan. Raises SettingError for a value that no run of it has."""
    return Selection(
        seeds=_known("seeds", seeds, {run.seed for run in plan.runs}),
        n=_known("n", n, {run.num_generations for run in plan.runs}),
        B=_known("B", B, {run.problems_per_batch for run in plan.runs}),
        budgets=_known("budgets", budgets, set(plan.budgets)),
    )


def _known(name: str, asked: Any, known: set[Any]) -> tuple[Any, ...] | None:
    """The values of the plan that are asked for, ascending."""
    if asked is None:
        return None
    listed = [asked] if isinstance(asked, str) or not hasattr(asked, "__iter__") else list(asked)
    found = []
    has = f"the sweep has {_listed(sorted(known))}"
    for value in listed:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise SettingError(name, value, f"must be a number or a list of them; {has}") from None
        nearest = min(known, key=lambda each: abs(each - number))
        if abs(nearest - number) > _CLOSE * nearest * (name == "budgets"):
            raise SettingError(name, value, has, f"{name}=[{_listed([nearest])}]")
        found.append(nearest)
    if not found:
        raise SettingError(name, "[]", f"chooses nothing; {has}")
    return tuple(sorted(set(found)))


def _listed(values: Collection[float]) -> str:
    return ", ".join(str(value) if isinstance(value, int) else short(value) for value in values)
