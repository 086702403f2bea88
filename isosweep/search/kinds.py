"""How each kind of search sees a sweep, and decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from isosweep.analysis.curves import SweepData
from isosweep.config.search import SearchConfig
from isosweep.plan.cells import Plan, variant_label
from isosweep.search import by_optuna, frontier
from isosweep.search.candidates import Question
from isosweep.search.steps import Decision

# What is decided about, each by itself: a plan and what was read of it, by label.
Parts = Mapping[str, tuple[Plan, SweepData]]


def _variants(plan: Plan, datas: Sequence[SweepData]) -> Parts:
    """Each variant of `grid.axes`."""
    return {
        variant_label(axes): (plan.of_axes(axes), data)
        for axes, data in zip(plan.axes, datas, strict=True)
    }


def _together(plan: Plan, datas: Sequence[SweepData]) -> Parts:
    """All variants as one: samplers choose among them as well."""
    if len(datas) == 1:
        return _variants(plan, datas)
    data = replace(
        datas[0],
        curves=tuple(curve for data in datas for curve in data.curves),
        readings=tuple(reading for data in datas for reading in data.readings),
    )
    return {"": (plan, data)}


def _nothing(config: SearchConfig, plan: Plan) -> None:
    """Every setting can be used."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a kind of search sees a sweep, and decides.

    `parts`: of the plan and the data of all its variants, what is decided about; `require`: raises
    SettingError where its settings cannot be used.
    """

    decide: Callable[[Question], Decision]
    parts: Callable[[Plan, Sequence[SweepData]], Parts] = _variants
    require: Callable[[SearchConfig, Plan], None] = _nothing


# By `search.kind`; `grid` is none.
KINDS = {
    "frontier": Kind(decide=frontier.decide),
    "optuna": Kind(decide=by_optuna.decide, parts=_together, require=by_optuna.require),
}
