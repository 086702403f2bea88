"""`total`: the budgets and seeds whose whole plan it pays for, by the odds that they decide."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.outlook import Outlook, outlook_of_variants
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig, total_parts
from isosweep.difficulty.selection import choose_variants
from isosweep.errors import SettingError
from isosweep.evidence import MIN_GENERATIONS, MIN_SEEDS
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import make_plan
from isosweep.plan.study import Study, resolve, resolve_stored
from isosweep.words import plan as words
from isosweep.words.numbers import in_steps, short

# Budgets that are considered, in any unit: so many a decade, in two digits.
_A_DECADE = 20
_LADDER = tuple(float(f"{10 ** (place / _A_DECADE):.2g}") for place in range(-60, 541))
# Of a plan, in places of the ladder below the largest: a decade and half of one.
_BELOW = (_A_DECADE, _A_DECADE // 2, 0)
# More than 8 runs of each n the table of odds does not have.
_SEEDS = (MIN_SEEDS, 3, 4, 6, 8)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Budgets and seeds that a total pays for, and what the whole plan takes of it.

    `unit`: of `spent`: h, device-hours; usd, US dollars; nothing, FLOPs.
    """

    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    spent: float
    unit: str
    outlook: Outlook

    @property
    def odds(self) -> float | None:
        """Share of simulated sweeps like it that decide: growth goes on in half of them, and has
        ended in the others. None where none is like it."""
        found = self.outlook.finds
        if found is None or "decades" in self.outlook.below:
            return None
        return (found.goes_on.surely + found.ends.surely) / 2

    @property
    def rank(self) -> tuple[int, float, int]:
        """What makes it a better one: higher odds, as exactly as they are known; a larger budget;
        fewer seeds."""
        return in_steps(self.odds or 0.0), self.budgets[-1], -len(self.seeds)


def resolve_total(config: SweepConfig) -> Study:
    """Work out what `config` implies with the budgets and seeds that its `total` chooses.

    They are chosen by assumed times, as budgets in device-hours are planned: the same command means
    the same sweep while its runs are measured. Raises SettingError, with the smallest total that
    works, where no plan that it pays for can decide anything, and as `resolve`.
    """
    plans = _Plans(config)
    half, chosen, twice = (plans.best(plans.total * times) for times in (0.5, 1, 2))
    if chosen is None:
        raise plans.refusal()
    study = resolve(plans.config(chosen.budgets, chosen.seeds))
    notes = words.chosen(plans.total, chosen, half, twice, study.config.hardware)
    return replace(study, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class _Rungs:
    """Budgets of a plan, how many n have cells at them, and what one seed takes of the total."""

    budgets: tuple[float, ...]
    generations: int
    cost: float


class _Plans:
    """The plans of a grid, and what they take of its total."""

    def __init__(self, config: SweepConfig) -> None:
        number, self._unit = total_parts(config.total or "")
        self._config, self.total = config, float(number)
        self._seeds = [tuple(range(count)) for count in _SEEDS]
        if "grid.seeds" in config.given:
            self._seeds = [tuple(config.grid.seeds)]
        whole = replaced(config, total=None, budget=_LADDER)
        tables = enumerate_candidates(choose_variants(whole, measured=False))
        if not any(table.feasible.any() for table in tables):
            try:
                make_plan(whole, tables)
            except SettingError as error:
                raise SettingError("total", config.total, error.rule, error.nearest) from None
        self._rungs = [*self._affordable(tables)]
        self._plans: dict[tuple[float, ...], Plan] = {}

    def _affordable(self, tables: tuple[Candidates, ...]) -> Iterator[_Rungs]:
        """Budgets at which enough n have cells to be compared, with two below, by the largest."""
        planned = np.min([table.feasible.any(axis=1).sum(axis=0) for table in tables], axis=0)
        enough = planned >= min(MIN_GENERATIONS, planned.max())
        for last in np.flatnonzero(enough).tolist():
            places = [p for p in (last - below for below in _BELOW) if p >= 0 and enough[p]]
            n = (table.feasible[..., places].any(axis=(1, 2)).sum() for table in tables)
            yield _Rungs(
                budgets=tuple(_LADDER[place] for place in places),
                generations=int(sum(n)),
                cost=math.fsum(self._cost(table, places) for table in tables),
            )

    def _cost(self, table: Candidates, places: list[int]) -> float:
        """What one seed takes, each run up to the largest of these budgets at which it has a cell,
        in the total's unit."""
        cost, left = 0.0, np.ones(table.listed.shape, dtype=bool)
        for number, place in reversed(list(enumerate(places))):
            ends = left & table.feasible[..., place]
            each = table.flops * table.steps[..., place]
            if self._unit:
                # The ladder has an evaluation at every budget below, the plan at its own alone.
                fewer = (place - number) * table.evaluation_seconds
                each = (table.run_seconds[..., place] - fewer) * table.config.devices_taken / 3600
            cost += float(each[ends].sum())
            left &= ~ends
        return cost * (self._config.hardware.dollars_per_hour or 1 if self._unit == "usd" else 1)

    def config(self, budgets: tuple[float, ...], seeds: tuple[int, ...]) -> SweepConfig:
        """Return the settings as they are with `budgets` and `seeds` typed."""
        grid = replaced(self._config.grid, seeds=[*seeds])
        return replaced(self._config, total=None, budget=budgets, grid=grid)

    def _choice(self, rungs: _Rungs, seeds: tuple[int, ...]) -> Choice:
        budgets, config = rungs.budgets, self.config(rungs.budgets, seeds)
        if budgets not in self._plans:
            one = self.config(budgets, seeds[:1])
            self._plans[budgets] = resolve_stored(one, measured=False).plan
        plan = self._plans[budgets]
        # Seeds repeat what is planned.
        runs = tuple(replace(run, seed=seed) for seed in seeds for run in plan.runs)
        outlook, spent = outlook_of_variants(replace(plan, runs=runs), config), rungs.cost
        return Choice(
            budgets=budgets,
            seeds=seeds,
            spent=spent * len(seeds),
            unit=self._unit,
            outlook=outlook,
        )

    def best(self, most: float) -> Choice | None:
        """Return the plan of at most `most` that decides most often; None where none can."""
        found = list[Choice]()
        for seeds in self._seeds:
            generations = 0
            for rungs in reversed(self._rungs):
                # Smaller budgets are worth a look where they leave room for more n.
                if rungs.cost * len(seeds) <= most and rungs.generations > generations:
                    generations = rungs.generations
                    found.append(self._choice(rungs, seeds))
        able = [choice for choice in found if not choice.outlook.lacks]
        return max(able, key=lambda choice: choice.rank, default=None)

    def refusal(self) -> SettingError:
        """Why the total pays for no plan that can decide, and the smallest that does."""
        rule, nearest = "", ""
        for rungs in sorted(self._rungs, key=lambda rungs: rungs.cost):
            choice = self._choice(rungs, self._seeds[0])
            if not (lacks := choice.outlook.lacks):
                # In three digits, and not below.
                digit = 10.0 ** (math.floor(math.log10(choice.spent)) - 2)
                least = math.ceil(choice.spent / digit) * digit
                takes = words.spent(least, self._unit)
                rule = f"pays for no plan that can decide anything; the smallest takes {takes}"
                nearest = f"total={short(least)}{self._unit}"
                break
            # No total changes the others.
            fixed = [lack for lack in lacks if lack.what != "budgets"]
            rule = f"a verdict takes at least {words.lacks(fixed or lacks)}"
            if fixed:
                break
        return SettingError("total", self._config.total, rule, nearest)
