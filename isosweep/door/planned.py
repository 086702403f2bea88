"""Plans made in Python: what they would train, and their price; and their launch."""

import math
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from isosweep.config.compose import config_of
from isosweep.config.overrides import Overrides, as_typed
from isosweep.door.frames import candidate_rows, frame, page, run_rows
from isosweep.door.sweep import Sweep
from isosweep.door.sweep import open as open_sweep
from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.dispatch import study_of
from isosweep.modes.price import at_launch, hours_left
from isosweep.modes.show_plan import described_cautions, described_findings
from isosweep.modes.sweeps import StoredSweep, places_of, sweep_paths
from isosweep.plan.cells import predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.study import Study, checkpoint_plan, evaluation_of
from isosweep.words.numbers import price

if TYPE_CHECKING:
    import pandas


class Price(NamedTuple):
    """The predicted cost of a plan: counts, FLOPs, device-hours, US dollars, hours and bytes.

    `device_hours`: with evaluation; `device_hours_left`: what runs on the disk have not trained
    yet. `dollars`: by `hardware.dollars_per_hour`; None without it. `hours`: wall time with
    `places` runs at once (None: all). `evaluation_share`: of the device time. `checkpoint_bytes`:
    most at once.
    """

    runs: int
    cells: int
    rejected: int
    flops: float
    device_hours: float
    device_hours_left: float
    dollars: float | None
    hours: float
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
        cost, time = self.price, price(self.price.device_hours, self.study.plan.pricing)
        return (
            f"<PlannedSweep {shlex.join(self.overrides)}: {cost.runs} runs, {cost.cells} cells, "
            f"{cost.rejected} rejected, device time {time}>"
        )

    def _repr_html_(self) -> str:
        return page(self.command, self.notes, frame([self.price._asdict()]))

    @property
    def plan(self) -> "pandas.DataFrame":
        """A frame of every candidate: planned, or rejected with the reason."""
        return frame(candidate_rows(self.study.plan), self.study.plan.budget_unit)

    @property
    def runs(self) -> "pandas.DataFrame":
        """A frame of every run, with its progress where another sweep has trained it already."""
        study, plan = self.study, self.study.plan
        sweep = StoredSweep(config=study.config, plan=plan, paths=sweep_paths(study))
        return frame(run_rows(sweep), plan.budget_unit)

    @cached_property
    def price(self) -> Price:
        """The predicted cost of the plan."""
        study, plan, places = self.study, self.study.plan, places_of(self.study)
        seconds = [predicted(run.seconds) for run in plan.runs]
        return Price(
            runs=len(plan.runs),
            cells=len(plan.cells),
            rejected=len(plan.rejected),
            flops=math.fsum(predicted(run.planned_flops) for run in plan.runs),
            device_hours=study.device_hours,
            device_hours_left=hours_left(study),
            dollars=plan.pricing.dollars(study.device_hours),
            hours=makespan(seconds, places or len(seconds)) / 3600,
            places=places,
            evaluation_share=evaluation_of(study).share_of_time,
            checkpoint_bytes=checkpoint_plan(study, places).peak_bytes,
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences of `mode=plan`: what `total` has chosen, the cost of evaluation, what the sweep
        could find, warnings, and whether launching it would ask first or be refused for its price
        or the disk."""
        said = (*described_findings(self.study), *described_cautions(self.study))
        return (*self.study.notes, *said, *at_launch(self.study))

    @property
    def command(self) -> str:
        """The command that launches the plan, to be typed in this directory."""
        return shlex.join(["python", "-m", "isosweep", *self.overrides])


def make_plan(overrides: Overrides = (), /, **settings: object) -> PlannedSweep:
    """Return the plan that these settings make, with its price. Nothing is written or launched.

    `overrides`: those of the command line, as text, as a list, or as a mapping from names to
    values. `settings`: further ones by name, such as `budget=1e20`. Raises SettingError for a
    setting that breaks a rule, and for a grid without a feasible candidate.

    >>> isosweep.make_plan(budget=[1e10, 2e10])
    <PlannedSweep 'budget=[1e10,2e10]': 12 runs, 21 cells, 15 rejected, device time ...>
    >>> isosweep.make_plan({"grid.seeds": [0]}, budget=[1e10, 2e10]).price.runs
    4
    """
    typed = (*as_typed(overrides), *as_typed(settings))
    config = config_of(["mode=plan", *typed])
    if config.mode != "plan":
        rule = "make_plan plans, run launches; what else is done is the command line's"
        raise SettingError("mode", config.mode, rule, "mode=plan")
    return PlannedSweep(overrides=typed, study=study_of(config))


def run(overrides: Overrides = (), /, **settings: object) -> Sweep:
    """Launch the plan that `make_plan` makes of the same settings, follow it, and return the sweep.

    What the command line prints is printed. Above `launcher.confirm_above` nothing is asked. Raises
    IsosweepError where it was refused; runs that failed are in the sweep's `runs`.
    """
    planned = make_plan(overrides, **settings)
    line = ""
    command = [sys.executable, "-m", "isosweep", *planned.overrides]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
    if process.returncode not in (0, 1):
        raise IsosweepError(line.strip())
    return open_sweep(sweep_paths(planned.study).root)
