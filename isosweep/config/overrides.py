"""Overrides that are given from Python: as they would be typed, composed, and refused."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from isosweep.config.choices import closest
from isosweep.config.hydra import compose_config, config_directory, packaged
from isosweep.config.mended import typed
from isosweep.config.sweep import SweepConfig
from isosweep.config.variants import flattened
from isosweep.errors import SettingError

Overrides = str | Sequence[str] | Mapping[str, object]

# A name as it is typed, with the signs that Hydra has before one.
_TYPED = re.compile(r"(?P<sign>[+~]{0,2})(?P<name>[^=]+)=?(?P<value>.*)", re.DOTALL)
# What of Hydra's words says which name it found no place for, and which value two meanings.
_NO_PLACE = re.compile(r"Could not override '([^']+)'")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")


def as_typed(given: Overrides) -> tuple[str, ...]:
    """Overrides one by one: of text as a shell would part it, of a mapping by names and values.

    A name with a tilde and None for a value takes away: {"~evaluation.sets.aime": None}.
    """
    if isinstance(given, str):
        return tuple(shlex.split(given))
    if not isinstance(given, Mapping):
        return tuple(given)
    return tuple(
        name if name.startswith("~") and value is None else f"{name}={typed(_plain(value))}"
        for name, value in given.items()
    )


def _plain(value: Any) -> Any:
    """A value in the types that Hydra knows; arrays and their numbers are lists and numbers."""
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    match value:
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case Path():
            return str(value)
        case str():
            return value
        case Set():
            return [_plain(item) for item in sorted(value)]
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return value


def config_of(overrides: Sequence[str]) -> SweepConfig:
    """The validated config of `overrides`; what Hydra refuses is a SettingError, too."""
    require_public(overrides)
    try:
        return compose_config(overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise refusal(error, overrides) from None


def require_public(overrides: Sequence[str]) -> None:
    """Raise SettingError for a choice that only other files are built on: `model=_llm`."""
    for match in filter(None, map(_TYPED.fullmatch, overrides)):
        group, choice = config_directory() / match["name"], match["value"]
        if choice.startswith("_") and (group / f"{choice}.yaml").is_file():
            options = tuple(sorted(path.stem for path in group.glob("[!_]*.yaml")))
            name = match["sign"] + match["name"]
            rule = "is a part that other choices are built on"
            raise SettingError(name, choice, rule, f"{name}={closest(choice, options)}")


def refusal(error: Exception, overrides: Sequence[str]) -> SettingError:
    """What Hydra refuses, in our words where it is a name that is misspelt."""
    if isinstance(error, MissingConfigException) and error.options:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        options = tuple(o for o in error.options if not o.startswith("_"))
        name = _signed(group, overrides)
        rule = f"must be one of {', '.join(options)}"
        return SettingError(name, choice, rule, f"{name}={closest(choice, options)}")
    words = str(error).strip()
    if match := _NO_PLACE.match(words):
        name, value = match[1], _value(match[1], overrides)
        known = tuple(_known())
        if name not in known:
            first, dot, _ = name.partition(".")
            siblings = tuple(one for one in known if dot and one.startswith(f"{first}."))
            nearest = f"{closest(name, siblings or known)}={value}"
            if name == "experiment":
                nearest = f"+experiment={value}"
            return SettingError(name, value, "there is no such setting", nearest)
    if match := _AMBIGUOUS.match(words):
        name, _, value = match[1].partition("=")
        rule = "several values are a list, or with -m on the command line a sweep each"
        return SettingError(name, value, rule, f"{name}=[{value}]")
    nearest = "python -m isosweep --cfg job, which shows all settings as they are composed"
    first = words.splitlines()[0].rstrip(".")
    return SettingError("overrides", shlex.join(overrides), first, nearest)


def _signed(name: str, overrides: Sequence[str]) -> str:
    """The name as it was typed: an experiment has a plus."""
    matches = (_TYPED.fullmatch(text) for text in overrides)
    return next((m["sign"] + name for m in matches if m and m["name"] == name), name)


def _value(name: str, overrides: Sequence[str]) -> str:
    matches = (_TYPED.fullmatch(text) for text in overrides)
    return next((m["value"] for m in matches if m and m["name"] == name), "")


def _known() -> Iterator[str]:
    """Dotted names of all settings, and of the groups that hold them."""
    with packaged():
        plain: Any = OmegaConf.to_container(compose("config"))
    yield from dict.fromkeys(name.split(".")[0] for name in flattened(plain))
    yield from flattened(plain)
