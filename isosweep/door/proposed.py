"""What to train next, in Python: the runs of `mode=next`, their price and the command."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from isosweep import words
from isosweep.config import overrides
from isosweep.door.columns import NEXT
from isosweep.door.display import Shown
from isosweep.door.frames import frame, rows_of
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep
from isosweep.modes.terminal import typed
from isosweep.plan.cells import variant_label
from isosweep.pricing import Pricing, pricing_from
from isosweep.words import numbers

if TYPE_CHECKING:
    import pandas

# A notebook shows so many runs; `runs` has all.
_SHOWN = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class NextRuns:
    """The runs that would decide a sweep: a frame, their price, and the command that plans them.

    `document`: all of it, as `mode=next format=json` prints it.
    """

    document: JsonObject
    command: str | None

    @classmethod
    def of(cls, sweep: StoredSweep, max_compute: float | None) -> "NextRuns":
        """What `mode=next` proposes; nothing is written."""
        from isosweep.modes.proposal import next_of

        search = sweep.config.search
        found = next_of(sweep, replace(search, max_compute=max_compute or search.max_compute))
        most = "" if max_compute is None else f" search.max_compute={overrides.typed(max_compute)}"
        where = f"{typed('from', sweep.paths.root)} {typed('sweeps_dir', sweep.config.sweeps_dir)}"
        planned = found.steps and found.study is not None
        command = f"python -m isosweep mode=next {where}{most}" if planned else None
        return cls(document=found.document, command=command)

    @property
    def runs(self) -> "pandas.DataFrame":
        """A frame of the runs to train, one a row, the one worth most for its compute first."""
        rows = (
            row
            for variant in self.document["variants"]
            for row in rows_of(
                NEXT,
                (
                    SimpleNamespace(**step, dollars=self._pricing.dollars(step["device_hours"]))
                    for step in variant["steps"]
                ),
                variant["axes"],
            )
        )
        return frame(NEXT, rows, self.document["budget_unit"])

    @property
    def compute(self) -> float:
        """Compute that all of them add, in the unit of the budgets."""
        return math.fsum(step["compute"] for step in self._steps)

    @property
    def device_hours(self) -> float | None:
        """Device-hours that all of them add; None for a sweep that was trained elsewhere."""
        hours = [step["device_hours"] for step in self._steps]
        return None if None in hours else math.fsum(hours)

    @property
    def dollars(self) -> float | None:
        """What these device-hours cost in US dollars; None without `hardware.dollars_per_hour`."""
        return self._pricing.dollars(self.device_hours)

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences: the chance of each verdict now, and why nothing is proposed where so."""
        return tuple(
            line
            for variant in self.document["variants"]
            for line in words.lines(
                "next", "belief", variant, variant_label(variant["axes"]), self._pricing
            )
        )

    def __repr__(self) -> str:
        return f"<NextRuns: {self._heading}>"

    def _repr_markdown_(self) -> str:
        return self._shown().markdown()

    def _repr_html_(self) -> str:
        return self._shown().html()

    @property
    def _pricing(self) -> Pricing:
        return pricing_from(self.document["pricing"])

    @property
    def _steps(self) -> list[JsonObject]:
        return [step for variant in self.document["variants"] for step in variant["steps"]]

    @property
    def _heading(self) -> str:
        steps = self._steps
        if not steps:
            return "nothing is proposed"
        cost = numbers.amount(self.compute, self.document["budget_unit"])
        if (hours := self.device_hours) is not None:
            cost += f", {numbers.price(hours, self._pricing)}"
        return f"{len(steps)} run{'s' if len(steps) > 1 else ''}, {cost}"

    def _shown(self) -> Shown:
        steps = self._steps
        more = [f"And {len(steps) - _SHOWN} more: runs has all."] if len(steps) > _SHOWN else []
        told = [f"To plan them: {self.command}"] if self.command else []
        unit = numbers.UNITS[self.document["budget_unit"]]
        head: tuple[str, ...] = (
            "n",
            "B",
            "seed",
            f"train to ({unit})",
            f"adds ({unit})",
            "reward saved",
            "decides",
        )
        labels = [
            variant_label(variant["axes"])
            for variant in self.document["variants"]
            for _ in variant["steps"]
        ]
        head = ("variant", *head) if any(labels) else head
        rows = [
            (
                *([label] if label else []),
                *(str(step[name]) for name in ("num_generations", "problems_per_batch", "seed")),
                *(numbers.short(step[name]) for name in ("milestone", "compute")),
                f"{step['loss_saved']:.2g}",
                numbers.percent(step["verdict_decided"]),
            )
            for label, step in list(zip(labels, steps, strict=True))[:_SHOWN]
        ]
        return Shown(
            heading=f"Next: {self._heading}",
            sentences=(*self.summary, *more, *told),
            tables=([head, *rows],) if rows else (),
        )
