"""`grid.axes`: every combination of further settings, each with a config of its own."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from isosweep.config.base import settings_in
from isosweep.config.data_files import NUMBERS, PATHS, find_data
from isosweep.config.model_files import read_model
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.variants import Combination, combine
from isosweep.errors import SettingError

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
