"""What `grid.axes` lists: the values of every axis, each with the settings it stands for."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isosweep.errors import SettingError

# Groups whose settings, and whose choices, may differ between the runs of a sweep.
AXIS_GROUPS = ("model", "task", "recipe", "evaluation", "generation")
# What a run is asked for by, and columns of plan.csv: no axis can be called so.
RESERVED = (
    *("n", "B", "T", "seed", "status", "budget", "num_generations", "problems_per_batch"),
    *("num_steps", "planned_compute", "planned_flops", "device_hours", "dollars"),
    *("run_id", "rule", "reason"),
)
# Groups of conf/ that all runs of a sweep share, and whole experiments.
_SHARED = (
    *("experiment", "grid", "hardware", "launcher", "analysis", "checkpoint", "difficulty"),
    *("health", "tracking"),
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

    @property
    def label(self) -> str:
        """The values by their axes, on one line."""
        return ", ".join(f"{axis}={value}" for axis, value in self.axes.items())

    @property
    def choices(self) -> dict[str, str]:
        """Choices of whole config groups, by group."""
        return {name: value for name, value in self.settings.items() if "." not in name}


def combine(axes: Mapping[str, Any]) -> tuple[Combination, ...]:
    """Every combination of the axes' values, the last axis varying fastest.

    Raises SettingError for an axis that is none, that lists nothing or a value twice, and for two
    that set the same. Whether a setting exists is not looked at.
    """
    listed = [_values(axis, axes) for axis in axes]
    combinations = []
    for chosen in itertools.product(*listed):
        settings: dict[str, Any] = {}
        for axis, (_, sets) in zip(axes, chosen, strict=True):
            if twice := sorted(settings.keys() & sets.keys()):
                rule = f"sets {twice[0]}, which another axis sets"
                raise SettingError("grid.axes", axis, rule)
            settings |= sets
        shown = {axis: value for axis, (value, _) in zip(axes, chosen, strict=True)}
        combinations.append(Combination(axes=shown, settings=settings))
    return tuple(combinations)


def stored_settings(document: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, object]:
    """Dotted names and values of a stored sweep's variant: those of `config.json`, and over them
    what its axes set, whole groups in the place of theirs."""
    settings, grid = flattened(document), document.get("grid", {})
    settings.pop("grid.composed", None)
    for combination in combine(grid.get("axes") or {}):
        if combination.axes != axes:
            continue
        composed = grid.get("composed") or ()
        chosen = (e["settings"] for e in composed if e["choices"] == combination.choices)
        typed = {name: value for name, value in combination.settings.items() if "." in name}
        for name, value in {**next(chosen, {}), **typed}.items():
            if isinstance(value, dict):
                settings = {k: v for k, v in settings.items() if not f"{k}.".startswith(f"{name}.")}
                settings |= flattened(value, f"{name}.")
            else:
                settings[name] = value
    return settings


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Dotted names and values of nested settings."""
    flat: dict[str, object] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _values(axis: str, axes: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """The values of one of the axes as they are shown, each with what it sets."""
    values = axes[axis]
    group, _, name = axis.partition(".")
    if group in AXIS_GROUPS and (name or not isinstance(values, dict)):
        return [(value, {axis: value}) for value in _distinct(axis, axes)]
    if "." in axis or not isinstance(values, dict) or group in AXIS_GROUPS:
        raise _no_axis(axis, values)
    if axis in RESERVED:
        raise SettingError("grid.axes", axis, "a name that already distinguishes runs")
    if not values:
        raise SettingError(f"grid.axes.{axis}", "{}", "names no variant")
    return [(variant, _settings(axis, variant, sets)) for variant, sets in values.items()]


def _distinct(axis: str, axes: Mapping[str, Any]) -> list[Any]:
    values = axes[axis]
    listed = values if isinstance(values, list) else [values]
    if not listed:
        raise SettingError(f"grid.axes.{axis}", "[]", "lists no value")
    if any(value in listed[:place] for place, value in enumerate(listed)):
        raise SettingError(f"grid.axes.{axis}", values, "lists a value twice")
    return listed


def _no_axis(axis: str, values: Any) -> SettingError:
    groups = ", ".join(AXIS_GROUPS)
    if axis in AXIS_GROUPS:
        rule = (
            "an axis that is a config group lists choices of it, by name, and one of its settings "
            "has its whole name, as in grid.axes={recipe.beta:[0,0.01]}"
        )
        return SettingError(f"grid.axes.{axis}", values, rule)
    if axis.partition(".")[0] in _SHARED:
        rule = (
            f"all runs of a sweep share it; an axis is one of {groups}, or a setting of one. "
            "Sweeps that differ in more are a multirun, which mode=compare sets side by side"
        )
        return SettingError("grid.axes", axis, rule)
    rule = (
        f"an axis is `model` or a setting of {groups}; one of these groups, with its choices; or a "
        "name of your own, with named sets of settings ({plain:{},with_kl:{recipe.beta:0.01}})"
    )
    return SettingError("grid.axes", axis, rule)


def _settings(axis: str, variant: Any, sets: Any) -> dict[str, Any]:
    """What a named variant sets. `null` and {} set nothing: the sweep as it is otherwise."""
    where = f"grid.axes.{axis}.{variant}"
    if not isinstance(variant, str) or not variant:
        rule = "a variant has a name that is text"
        raise SettingError(f"grid.axes.{axis}", variant, rule)
    if sets is None:
        return {}
    if not isinstance(sets, dict):
        raise SettingError(where, sets, "must be a set of settings, as {recipe.beta:0}")
    for name, value in sets.items():
        group, _, rest = str(name).partition(".")
        if group not in AXIS_GROUPS:
            rule = f"a variant sets choices and settings of {', '.join(AXIS_GROUPS)}"
            raise SettingError(where, name, rule)
        if not rest and not isinstance(value, str):
            rule = f"a choice of the config group {group} is its name; its settings have a dot"
            raise SettingError(where, f"{name}: {value}", rule)
    return dict(sets)
