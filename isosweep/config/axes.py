"""`grid.axes`: every combination of further settings, each with a config of its own."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isosweep.config.base import AXIS_GROUPS, settings_in
from isosweep.config.model import read_model
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.task import NUMBERS, PATHS, find_data
from isosweep.errors import SettingError

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


# Of `generation`: what the devices and jobs of all runs are laid out by.
_LAID_OUT = ("name", "sleep", "tensor_parallel")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of the values of `grid.axes`, and the config that has them."""

    axes: dict[str, Any]
    config: SweepConfig


def combinations(config: SweepConfig) -> tuple[Variant, ...]:
    """What `variants` gives, before problems are chosen by difficulty.

    Raises SettingError for an axis that is none, a value that breaks a rule of its setting, and
    two variants that are the same.
    """
    if not config.grid.axes:
        return (Variant(axes={}, config=config),)
    variants: list[Variant] = []
    for combination in combine(config.grid.axes):
        variant = Variant(axes=combination.axes, config=_varied(config, combination))
        _require_shared(variant, config)
        _require_new(variant, variants, combination.label)
        variants.append(variant)
    return tuple(variants)


def _varied(config: SweepConfig, combination: Combination) -> SweepConfig:
    """`config` as one combination has it: choices of groups first, then settings in them."""
    plain = config.model_dump()
    for setting, value in _composed(config, combination.choices).items():
        _set(plain, setting, value, composed=True)
    settings = {name: v for name, v in combination.settings.items() if "." in name}
    for setting, value in settings.items():
        _set(plain, setting, value)
    if "model.path" in settings:
        read_model(plain["model"])
    _find_changed_data(plain["task"], settings)
    try:
        return sweep_config(plain)
    except SettingError as error:
        rule = f"{error.rule} (where {combination.label})"
        raise SettingError(error.setting, error.value, rule) from None


def _find_changed_data(task: dict[str, Any], settings: Collection[str]) -> None:
    """`find_data`, where `settings` that an axis has changed name a file, or a mixture's parts."""
    parts = [name for name in settings if name.startswith("task.mixture.parts")]
    for number in NUMBERS:
        if any(name.endswith(number) for name in parts) and f"task.{number}" not in settings:
            task[number] = None
    if parts or any(path in settings for path in PATHS):
        find_data(task)


def _composed(config: SweepConfig, choices: dict[str, str]) -> dict[str, Any]:
    """What these choices of groups come to, as it was composed with the sweep: dotted settings, and
    whole groups by their names."""
    if not choices:
        return {}
    for entry in config.grid.composed or ():
        if entry["choices"] == choices:
            settings: dict[str, Any] = entry["settings"]
            return settings
    raise SettingError("grid.axes", choices, "was not composed with the sweep")


def _set(plain: dict[str, Any], setting: str, value: Any, *, composed: bool = False) -> None:
    """Give one setting its value; where it was `composed`, a group may be new with it."""
    group, _, name = setting.partition(".")
    if not name:
        plain[group] = value
        return
    place = plain[group]
    *parents, last = name.split(".")
    for parent in parents:
        place = {} if (inner := place.get(parent)) is None else inner
    if last not in place and not composed and [group, *parents] != ["recipe", "trl"]:
        known = ", ".join(settings_in(SweepConfig, (group, *parents)))
        raise SettingError("grid.axes", setting, f"no such setting; here are {known}")
    place[last] = value


def _require_shared(variant: Variant, config: SweepConfig) -> None:
    """Raise SettingError where a variant would need devices or jobs of another kind, or is
    evaluated on other sets."""
    if (sets := variant.config.evaluation.sets) != config.evaluation.sets:
        rule = "the runs of a sweep are all evaluated on the same sets"
        raise SettingError("evaluation.sets", sets, rule)
    mine, shared = variant.config.generation, config.generation
    for name in _LAID_OUT:
        if (value := getattr(mine, name)) != (every := getattr(shared, name)):
            rule = (
                f"lays out devices and jobs, for all runs of a sweep alike: here {every}. Sweeps "
                "that differ in it are a multirun, which mode=compare sets side by side"
            )
            raise SettingError(f"generation.{name}", value, rule)


def _require_new(variant: Variant, others: Sequence[Variant], label: str) -> None:
    """Raise SettingError where a variant changes nothing that another one has not."""
    for other in others:
        if variant.config == other.config:
            known = ", ".join(f"{axis}={value}" for axis, value in other.axes.items())
            rule = f"comes to the same settings as {known}"
            raise SettingError("grid.axes", label, rule)
