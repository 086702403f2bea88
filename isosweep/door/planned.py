"""A plan made in Python: what it would train, and its price. Nothing is written or launched."""

import math
import shlex
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from isosweep.config.compose import config_of
from isosweep.config.overrides import Overrides, as_typed
from isosweep.door.columns import PLAN, RUNS
from isosweep.door.display import markdown
from isosweep.door.frames import candidate_rows, frame, run_rows
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, sweep_paths
from isosweep.modes.plan_facts import described_cautions, described_findings
from isosweep.modes.price import described_price, hours_left
from isosweep.modes.stored import places_of
from isosweep.plan.cells import predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.study import Study, checkpoint_plan, evaluation_of, resolve
from isosweep.words import numbers as words

if TYPE_CHECKING:
    import pandas

_MODE = "mode=plan"


@dataclass(frozen=True, kw_only=True)
class Price:
    """The predicted cost of a plan, in FLOPs, device-hours, dollars and hours.

    `cells`, `rejected`, `runs`: counts of planned candidates, of rejected ones, and of training
    runs. `flops`: FLOPs of training and generation. `device_hours`: device time, with evaluation;
    `device_hours_left`: the part that runs on the disk have not trained yet. `dollars`,
    `dollars_left`: the price of both, by `hardware.dollars_per_hour`; None without it. `hours`:
    wall time with `places` runs at once (None: all at once). `spread`: lowest and highest factor
    by which measured times and prices are expected to differ from these. `evaluation_share`:
    evaluation's share of the device time. `checkpoint_bytes`: most bytes of checkpoints on the disk
    at once.
    """

    cells: int
    rejected: int
    runs: int
    flops: float
    device_hours: float
    device_hours_left: float
    dollars: float | None
    dollars_left: float | None
    hours: float
    spread: tuple[float, float]
    places: int | None
    evaluation_share: float
    checkpoint_bytes: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PlannedSweep:
    """A plan that is not launched: its candidates, runs, price and the command that launches it.

    `overrides`: the settings it was made from, as typed. `study`: every setting, and what follows
    from it.
    """

    overrides: tuple[str, ...]
    study: Study

    def __repr__(self) -> str:
        price, typed = self.price, shlex.join(self.overrides)
        time = words.price(price.device_hours, self.study.plan.pricing)
        return (
            f"<PlannedSweep {typed}: {price.runs} runs, {price.cells} cells, {price.rejected} "
            f"rejected, device time {time}>"
        )

    @property
    def plan(self) -> "pandas.DataFrame":
        """A frame of every candidate: planned, or rejected with the reason."""
        plan = self.study.plan
        return frame(PLAN, candidate_rows(plan), plan.budget_unit)

    @property
    def runs(self) -> "pandas.DataFrame":
        """A frame of every run, with its progress where another sweep has trained it already."""
        study, plan = self.study, self.study.plan
        sweep = StoredSweep(config=study.config, plan=plan, paths=sweep_paths(study))
        return frame(RUNS, run_rows(sweep), plan.budget_unit)

    @cached_property
    def price(self) -> Price:
        """The predicted cost of the plan."""
        study, places = self.study, places_of(self.study)
        plan, evaluation = study.plan, evaluation_of(study)
        seconds = [predicted(run.seconds) for run in plan.runs]
        left = hours_left(study)
        return Price(
            cells=len(plan.cells),
            rejected=len(plan.rejected),
            runs=len(plan.runs),
            flops=math.fsum(predicted(run.planned_flops) for run in plan.runs),
            device_hours=study.device_hours,
            device_hours_left=left,
            dollars=plan.pricing.dollars(study.device_hours),
            dollars_left=plan.pricing.dollars(left),
            spread=plan.pricing.spread,
            hours=makespan(seconds, places or len(seconds)) / 3600,
            places=places,
            evaluation_share=evaluation.share_of_time,
            checkpoint_bytes=checkpoint_plan(study, places).peak_bytes,
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences of `mode=plan`: the cost of evaluation, what the sweep could find, warnings,
        and whether launching it would ask first or be refused for its price."""
        study = self.study
        price = described_price(study)
        parts = described_findings(study), described_cautions(study)
        return (*chain(*parts), *([price] if price else []))

    @property
    def command(self) -> str:
        """The command that launches the plan, to be typed in this directory."""
        return shlex.join(["python", "-m", "isosweep", *self.overrides])

    def _repr_markdown_(self) -> str:
        price, pricing = self.price, self.study.plan.pricing
        at_once = f"{price.places or f'all {price.runs}'} runs at once"
        table = (
            ("runs", "cells", "rejected", "FLOPs", "device time", at_once, "checkpoints"),
            (
                *(f"{count:,}" for count in (price.runs, price.cells, price.rejected)),
                f"{price.flops:.3g}",
                words.price(price.device_hours, pricing),
                words.predicted_time(price.hours, pricing),
                words.size(price.checkpoint_bytes),
            ),
        )
        return markdown(heading=self.command, sentences=self.notes, tables=(table,))


def make_plan(overrides: Overrides = (), /, **settings: object) -> PlannedSweep:
    """The plan that these settings make, with its price. Nothing is written or launched.

    `overrides`: those of the command line, as text, as a list, or as a mapping from names to
    values. `settings`: further ones by name, such as `budget=1e20`. Raises SettingError for a
    setting that breaks a rule, and for a grid without a feasible candidate.

    >>> isosweep.make_plan(budget=[1e10, 2e10])
    <PlannedSweep 'budget=[1e10,2e10]': 12 runs, 21 cells, 15 rejected, device time ...>
    >>> isosweep.make_plan({"grid.seeds": [0]}, budget=[1e10, 2e10]).price.runs
    4
    """
    typed = (*as_typed(overrides), *as_typed(settings))
    config = config_of([_MODE, *typed])
    if config.mode != "plan":
        rule = "make_plan plans; what else is done is the command line's"
        raise SettingError("mode", config.mode, rule, _MODE)
    return PlannedSweep(overrides=typed, study=resolve(config))
