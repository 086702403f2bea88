"""Anybody's Optuna study as a sweep: its trials are runs, their intermediate values readings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from isosweep.analysis.curves import CellReading, Curve, SweepData
from isosweep.errors import SettingError
from isosweep.plan.cells import Cell, Plan, PlannedRun

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

# User attribute of a trial: what the search asks of it.
ASKED = "search"


class Key(NamedTuple):
    """What tells runs apart; also the names of a trial's parameters."""

    n: int
    B: int
    seed: int

    @property
    def run_id(self) -> str:
        """Name of the run in the plan."""
        return f"n{self.n}-B{self.B}-s{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All that a study may train: every n x B x seed, each read off at every budget.

    `budgets`: compute of one run at steps 0, 1, ... of its intermediate values, in any one unit.
    Raises SettingError for values that are no numbers or not ascending, or fewer than two n or
    seeds.
    """

    generations: tuple[int, ...]
    batches: tuple[int, ...]
    seeds: tuple[int, ...]
    budgets: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, least in (("generations", 2), ("batches", 1), ("seeds", 2), ("budgets", 1)):
            values = getattr(self, name)
            kind = Real if name == "budgets" else Integral
            if not all(isinstance(value, kind) for value in values):
                rule = "must be numbers" if name == "budgets" else "must be whole numbers"
                raise SettingError(name, list(values), rule, f"{name}=[1, 2]")
            rising = sorted(set(values))
            positive = not rising or rising[0] > 0 or (name == "seeds" and rising[0] == 0)
            if list(values) != rising or not positive:
                rule = "must be positive and ascending, each once"
                raise SettingError(name, list(values), rule, str([v for v in rising if v > 0]))
            if len(values) < least:
                rule = f"{len(values)} given, and a search compares {least} or more"
                raise SettingError(name, list(values), rule, f"{least} of them")

    @cached_property
    def runs(self) -> dict[str, Key]:
        """What each run of the plan is."""
        keys = [Key(*each) for each in product(self.generations, self.batches, self.seeds)]
        return {key.run_id: key for key in keys}

    @cached_property
    def plan(self) -> Plan:
        """The grid as a sweep plans it. What only training reads has no meaning in it."""
        return Plan(
            budget_unit="flops",
            budgets=self.budgets,
            cells=tuple(cell for key in self.runs.values() for cell in self._cells(key)),
            runs=tuple(
                PlannedRun(
                    run_id=name,
                    num_generations=key.n,
                    problems_per_batch=key.B,
                    seed=key.seed,
                    learning_rate=1.0,
                    milestones=self.budgets,
                    num_steps=len(self.budgets),
                    planned_flops=self.budgets[-1],
                    seconds=1.0,
                    micro_batch=1,
                )
                for name, key in self.runs.items()
            ),
            rejected=(),
        )

    def _cells(self, key: Key) -> list[Cell]:
        return [
            Cell(
                num_generations=key.n,
                problems_per_batch=key.B,
                num_steps=place + 1,
                seed=key.seed,
                budget=budget,
                planned_compute=budget,
                planned_flops=budget,
                device_hours=1.0,
                run_id=key.run_id,
            )
            for place, budget in enumerate(self.budgets)
        ]

    def key_of(self, trial: "FrozenTrial") -> Key | None:
        """The run that a trial trains: by its parameters, and by what was asked of it where it has
        not got to them; None where neither says. Raises SettingError for one outside the grid."""
        only = {"n": self.generations, "B": self.batches, "seed": self.seeds}
        given: Mapping[str, Any] = {
            **{name: values[0] for name, values in only.items() if len(values) == 1},
            **trial.user_attrs.get(ASKED, {}),
            **trial.system_attrs.get("fixed_params", {}),
            **trial.params,
        }
        if not given.keys() >= only.keys():
            return None
        for name, values in only.items():
            if given[name] not in values:
                rule = f"trial {trial.number} has it, and the sampler's grid has not"
                raise SettingError(name, given[name], rule, f"one of {listed(values)}")
        return Key(*(int(given[name]) for name in only))


def listed(values: Iterable[float]) -> str:
    """Values in a sentence."""
    return ", ".join(f"{value:g}" for value in values)


@dataclass(kw_only=True)
class Trained:
    """What the trials of one run say of it. `rewards`: by step; `asked`: the step that an open
    trial is to go to; `status`: why nothing more can be asked of it."""

    rewards: dict[int, float] = field(default_factory=dict)
    asked: int | None = None
    status: str | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A study as a search looks at it: by run id."""

    grid: Grid
    runs: dict[str, Trained]

    @property
    def pending(self) -> dict[str, float]:
        """Budgets asked for and not reached, by run id."""
        budgets = self.grid.budgets
        return {
            name: budgets[run.asked]
            for name, run in self.runs.items()
            if run.asked is not None and run.asked > max(run.rewards, default=-1)
        }

    @property
    def data(self) -> SweepData:
        """What has been read so far."""
        return SweepData(
            plan=self.grid.plan,
            plan_document={},
            config_document={},
            curves=tuple(self._curve(run) for run in self.grid.plan.runs),
            readings=tuple(self._reading(cell) for cell in self.grid.plan.cells),
            problems=(),
        )

    def _curve(self, run: PlannedRun) -> Curve:
        known = self.runs.get(run.run_id, Trained())
        places = sorted(known.rewards)
        compute = np.array([self.grid.budgets[place] for place in places])
        return Curve(
            run=run,
            steps=np.array(places, int),
            generations=np.array(places, int),
            compute=compute,
            flops=compute,
            reward=np.array([known.rewards[place] for place in places], float),
            successes=np.zeros((len(places), 0), int),
            samples_per_problem=1,
            status=known.status,
            status_reason=None,
        )

    def _reading(self, cell: Cell) -> CellReading:
        known = self.runs.get(cell.run_id, Trained())
        place, last = self.grid.budgets.index(cell.budget), max(known.rewards, default=None)
        reward = known.rewards.get(place)
        missing = CellReading(cell=cell, reward=None, measured_compute=None, reading="missing")
        if reward is not None:
            return replace(missing, reward=reward, measured_compute=cell.budget, reading="exact")
        if known.status == "diverged" and last is not None and place > last:
            # Whatever it was, 0 too; of a run that never reported a reward nothing is known.
            return replace(missing, reading="diverged", fallen=known.rewards[last])
        return missing


def look(grid: Grid, trials: Iterable["FrozenTrial"], *, resumable: bool, stops: bool) -> Seen:
    """What `trials`, oldest first, say of every run.

    `resumable`: a later trial of the same run goes on with it; otherwise, and where one came no
    further, the run ends there. `stops`: an open trial ends at the step asked of it, and not at the
    last.
    """
    last = len(grid.budgets) - 1
    runs: dict[str, Trained] = {}
    for trial in trials:
        key = grid.key_of(trial)
        if key is None or trial.state.name == "WAITING":
            continue
        known = runs.setdefault(key.run_id, Trained())
        before = max(known.rewards, default=-1)
        wrong = [step for step in trial.intermediate_values if not 0 <= step <= last]
        if wrong:
            rule = f"is no budget's place: {last + 1} budgets are steps 0 to {last}"
            raise SettingError("trial.report's step", wrong[0], rule, str(last))
        known.rewards |= {
            step: value for step, value in trial.intermediate_values.items() if math.isfinite(value)
        }
        if trial.state.is_finished():
            further = max(known.rewards, default=-1) > before
            known.status = _status(trial, resumable=resumable and further)
            known.asked = None
        else:
            known.asked = trial.user_attrs.get(ASKED, {}).get("step", last) if stops else last
            known.status = None
    return Seen(grid=grid, runs=runs)


def _status(trial: "FrozenTrial", *, resumable: bool) -> str | None:
    """Why nothing more can be asked of the run of a finished trial, or None."""
    if trial.state.name == "FAIL":
        return "failed"
    if not all(map(math.isfinite, trial.intermediate_values.values())):
        return "diverged"
    return None if resumable else "cancelled"
