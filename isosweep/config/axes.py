"""`grid.axes`: every combination of further settings, each with a config of its own."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isosweep.config.base import AXIS_GROUPS, Settings, load, replaced
from isosweep.config.evaluation import EvaluationConfig
from isosweep.config.model import ModelConfig
from isosweep.config.recipe import GenerationConfig, RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError

# What a run is asked for by, and columns of plan.csv: no axis can be called so.
RESERVED = (
    *("n", "B", "T", "seed", "status", "budget", "num_generations", "problems_per_batch"),
    *("num_steps", "planned_compute", "planned_flops", "device_hours", "dollars"),
    *("run_id", "rule", "reason"),
)
_KINDS: dict[str, type[Settings]] = {
    "model": ModelConfig,
    "task": TaskConfig,
    "recipe": RecipeConfig,
    "evaluation": EvaluationConfig,
    "generation": GenerationConfig,
}
# What all runs of a sweep are laid out and evaluated by.
_SHARED = (
    *("generation.name", "generation.sleep", "generation.tensor_parallel"),
    "evaluation.sets",
)


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One value of every axis.

    `axes`: the values as they are shown, by axis: a setting's own value, a choice of a config
    group, or a variant's name. `settings`: what they set, by dotted name; a group's name alone
    (`recipe`) has the choice made of it.
    """

    axes: dict[str, Any]
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of the values of `grid.axes`, and the config that has them."""

    axes: dict[str, Any]
    config: SweepConfig


def combine(axes: Mapping[str, Any]) -> tuple[Combination, ...]:
    """Return every combination of the axes' values, the last axis varying fastest.

    Raises SettingError for an axis that is none, that lists nothing or a value twice, and for two
    that set the same. Whether a setting exists is not looked at.
    """
    combinations = []
    for chosen in itertools.product(*(_values(axis, values) for axis, values in axes.items())):
        settings: dict[str, Any] = {}
        for axis, (_, sets) in zip(axes, chosen, strict=True):
            if twice := sorted(settings.keys() & sets.keys()):
                rule = f"sets {twice[0]}, which another axis sets"
                raise SettingError("grid.axes", axis, rule)
            settings |= sets
        shown = {axis: value for axis, (value, _) in zip(axes, chosen, strict=True)}
        combinations.append(Combination(axes=shown, settings=settings))
    return tuple(combinations)


def combinations(config: SweepConfig) -> tuple[Variant, ...]:
    """Return the variants of a sweep, before problems are chosen by difficulty.

    Raises SettingError for a value that breaks a rule of its setting, for what all runs of a sweep
    share, and for two variants that are the same.
    """
    if not config.grid.axes:
        return (Variant(axes={}, config=config),)
    if not config.variants:
        raise SettingError("grid.axes", config.grid.axes, "were not composed with the sweep")
    variants: list[Variant] = []
    for stored in config.variants:
        label = ", ".join(f"{axis}={value}" for axis, value in stored["axes"].items())
        try:
            groups: dict[str, Any] = {n: load(kind, stored[n]) for n, kind in _KINDS.items()}
            grid = replaced(config.grid, **stored["grid"])
            varied = replaced(config, **groups, grid=grid)
        except SettingError as error:
            rule = f"{error.rule} (where {label})"
            raise SettingError(error.setting, error.value, rule) from None
        for setting in _SHARED:
            group, _, name = setting.partition(".")
            own, shared = (getattr(getattr(c, group), name) for c in (varied, config))
            if own != shared:
                rule = f"is the same for all runs of a sweep: here {shared}"
                raise SettingError(setting, own, rule)
        if any(other.config == varied for other in variants):
            raise SettingError("grid.axes", label, "comes to the same settings as another variant")
        variants.append(Variant(axes=stored["axes"], config=varied))
    return tuple(variants)


def _values(axis: str, values: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The values of one axis as they are shown, each with what it sets."""
    group, _, name = axis.partition(".")
    if isinstance(values, dict) and not name and group not in AXIS_GROUPS:
        if axis in RESERVED:
            raise SettingError("grid.axes", axis, "a name that already distinguishes runs")
        return [(variant, _sets(axis, variant, sets)) for variant, sets in values.items()]
    if group not in AXIS_GROUPS or (isinstance(values, dict) and not name):
        rule = (
            f"all runs of a sweep share it; an axis is a setting of {', '.join(AXIS_GROUPS)}, one "
            "of these groups with its choices, or a name of your own with named sets of settings "
            "({plain:{},with_kl:{recipe.beta:0.01}})"
        )
        raise SettingError("grid.axes", axis, rule)
    listed = values if isinstance(values, list) else [values]
    if not listed or any(value in listed[:place] for place, value in enumerate(listed)):
        rule = "lists a value twice" if listed else "lists no value"
        raise SettingError(f"grid.axes.{axis}", values, rule)
    return [(value, {axis: value}) for value in listed]


def _sets(axis: str, variant: Any, sets: Any) -> dict[str, Any]:
    """Settings of a named variant; of `null` and {} none, which is the sweep unchanged."""
    where = f"grid.axes.{axis}.{variant}"
    if not isinstance(sets, dict | None):
        raise SettingError(where, sets, "must be a set of settings, as {recipe.beta:0}")
    for name, value in (sets or {}).items():
        group, _, rest = str(name).partition(".")
        if group not in AXIS_GROUPS or (not rest and not isinstance(value, str)):
            rule = f"sets choices, by name, or dotted settings of {', '.join(AXIS_GROUPS)}"
            raise SettingError(where, f"{name}: {value}", rule)
    return dict(sets or {})
