"""Validated dataclasses from plain nested dictionaries."""

from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from isosweep.config.rules import closest
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError


def from_mapping(plain: Any) -> SweepConfig:
    """The validated config of plain nested dictionaries: as stored in a sweep's `config.json`."""
    config: SweepConfig = build(SweepConfig, plain, "")
    return config


def build(kind: Any, values: Any, where: str) -> Any:
    """An instance of dataclass `kind` from a dictionary; `where` is its dotted name.

    Raises SettingError as `from_hydra` does.
    """
    types = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    if not isinstance(values, dict):
        raise SettingError(where, values, "must be a group of settings", f"{where}={{}}")
    for key in values:
        if key not in types:
            known = tuple(types)
            rule = f"no such setting; here are {', '.join(known)}"
            nearest = prefix + closest(str(key), known)
            raise SettingError(f"{prefix}{key}", values[key], rule, nearest)
    for item in fields(kind):
        optional = item.default is not MISSING or item.default_factory is not MISSING
        if not optional and item.name not in values:
            rule = "has no value and no default"
            raise SettingError(f"{prefix}{item.name}", "", rule, f"{prefix}{item.name}=VALUE")
    return kind(
        **{key: _typed(types[key], value, f"{prefix}{key}") for key, value in values.items()}
    )


def _typed(kind: Any, value: Any, setting: str) -> Any:
    """`value` as `kind`, which is one of the types the dataclasses above use."""
    if is_dataclass(kind):
        return build(kind, value, setting)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (option for option in get_args(kind) if option is not NoneType)
        return None if value is None else _typed(kind, value, setting)
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        values = value if isinstance(value, list) else [value]
        return [_typed(element, item, setting) for item in values]
    if get_origin(kind) is Literal:
        kind = str
    if kind is Any or (get_origin(kind) is dict and isinstance(value, dict)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {int: ("a whole number", 1), float: ("a number", 1.0), str: ("text", "name")}
        wanted, example = names.get(kind, ("true or false", "true"))
        raise SettingError(setting, value, f"must be {wanted}", f"{setting}={example}")
    return value
