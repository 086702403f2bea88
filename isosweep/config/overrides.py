"""Overrides that are given from Python: as they would be typed, composed, and refused."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, get_args

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from isosweep.config.choices import closest
from isosweep.config.hydra import compose_config, config_directory, packaged
from isosweep.config.sweep import Mode, SweepConfig
from isosweep.config.typed import typed
from isosweep.config.variants import flattened
from isosweep.errors import SettingError

Overrides = str | Sequence[str] | Mapping[str, object]

# A name as it is typed, with the signs that Hydra has before one.
_TYPED = re.compile(r"(?P<sign>[+~]{0,2})(?P<name>[^=]+)=?(?P<value>.*)", re.DOTALL)
# What of Hydra's words says which name it found no place for, and which value two meanings.
_NO_PLACE = re.compile(r"Could not override '([^']+)'")
_NOT_THERE = re.compile(r"Could not delete from config\. '([^']+)'")
# A number of a list, with what parts it from the next.
_VALUE = re.compile(r"[\d.]+(e[+-]?\d+)?,?\]?")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")


# What settings are called in papers and by other tools.
_AS_WRITTEN = {
    "n": "grid.num_generations",
    "B": "grid.problems_per_batch",
    "seed": "grid.seeds",
    "lr": "recipe.learning_rate",
    "kl": "recipe.beta",
    "gpus": "hardware.devices_per_run",
    "max_tokens": "task.max_completion_tokens",
    "experiment": "+experiment",
    "config": "+experiment",
}
_PARSER = OverridesParser.create()


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
    if isinstance(error, OverrideParseException):
        return _unread(error.override, overrides)
    if isinstance(error, MissingConfigException) and error.options:
        # A choice may lie in a folder of its group, where Hydra lists none: tiny/data_reuse.
        group, _, choice = str(error.missing_cfg_file).partition("/")
        options = tuple(sorted({*error.options, *choices_of(config_directory(), group)}))
        options = tuple(option for option in options if not option.startswith("_"))
        name = _signed(group, overrides)
        rule = f"must be one of {', '.join(options)}"
        return SettingError(name, choice, rule, f"{name}={_choice(group, choice, options)}")
    words = str(error).strip()
    if match := _NO_PLACE.match(words):
        name, value = match[1], _value(match[1], overrides)
        known = tuple(setting_names())
        if name not in known:
            # What is given already is not what was meant.
            given = {m["name"] for m in map(_TYPED.fullmatch, overrides) if m}
            free = tuple(one for one in known if one not in given)
            meant, works = _meant(name, free), value
            if meant == "+experiment":
                works = closest(value, tuple(choices_of(config_directory(), "experiment")))
            elif meant == "grid.seeds" and not value.startswith("["):
                works = f"[{value}]"
            nearest = f"{meant}={works}"
            return SettingError(name, value, "there is no such setting", nearest)
    if match := _NOT_THERE.match(words):
        rule, nearest = "there is no such setting", _meant(match[1], tuple(setting_names()))
        return SettingError(f"~{match[1]}", "", rule, f"~{nearest}")
    if match := _AMBIGUOUS.match(words):
        name, _, value = match[1].partition("=")
        rule = "several values are a list, or with -m on the command line a sweep each"
        return SettingError(name, value, rule, f"{name}=[{value}]")
    nearest = "python -m isosweep --cfg job, which shows all settings as they are composed"
    first = words.splitlines()[0].rstrip(".")
    return SettingError("overrides", shlex.join(overrides), first, nearest)


def choices_of(conf: Path, group: str) -> list[str]:
    """The choices of one group of the directory `conf`, without what others are built on."""
    found = sorted((conf / group).rglob("*.yaml"))
    paths = [path.relative_to(conf / group).with_suffix("") for path in found]
    # Templates of jobs lie beside the launchers.
    return [p.as_posix() for p in paths if p.parts[0] != "files" and not p.name.startswith("_")]


def _choice(group: str, given: str, options: tuple[str, ...]) -> str:
    """Of the choices of a group: the likest; what names a data set or model like that; or the one
    that is chosen without a word."""
    found = (config_directory() / group / f"{option}.yaml" for option in options)
    naming = [path.stem for path in found if path.is_file() and given in path.read_text()]
    known: Any = OmegaConf.load(config_directory() / "config.yaml")
    usual = [
        each[group] for each in known["defaults"] if isinstance(each, Mapping) and group in each
    ]
    return closest(given, tuple(dict.fromkeys((*naming, *usual, *options))))


def _unread(text: str, overrides: Sequence[str]) -> SettingError:
    """Why an override is none, where its grammar ends Hydra's reading of it."""
    name, given, value = text.partition("=")
    if whole := _parted(text, overrides):
        name, _, value = " ".join(whole).partition("=")
        rule = "the shell parts an override at spaces"
        listed = value if value.startswith("[") else f"[{value.replace(' ', ',')}]"
        return SettingError(name, value, rule, f"{name}={listed.replace(' ', '')}")
    if given:
        rule = "cannot be read: brackets and quotes are closed, and text with signs has quotes"
        quoted = value.replace("\\", "").replace("'", "").replace('"', "")
        tried = (f"{text}{end}" for end in ("]", "}", "'", '"', ")"))
        nearest = next(filter(_reads, tried), f"{name}='\"{quoted}\"'")
        return SettingError(name, value, rule, nearest)
    modes, known = get_args(Mode), tuple(setting_names())
    likest = closest(text, (*modes, *known))
    nearest = f"mode={likest}" if likest in modes else f"{likest}=VALUE"
    nearest = f"budget={text}" if _VALUE.fullmatch(text) else nearest
    return SettingError(text, "", "an override is SETTING=VALUE", nearest)


def _parted(text: str, overrides: Sequence[str]) -> list[str]:
    """The words of one override around `text` that a shell has parted; [] where it is whole."""
    words = list(overrides)
    if text not in words:
        return []
    first = last = words.index(text)
    while first and _VALUE.fullmatch(words[first]):
        first -= 1
    while last + 1 < len(words) and _VALUE.fullmatch(words[last + 1]):
        last += 1
    return words[first : last + 1] if first < last and "=" in words[first] else []


def _reads(text: str) -> bool:
    try:
        return not _PARSER.parse_override(text).is_sweep_override()
    except HydraException:
        return False


def _meant(name: str, known: tuple[str, ...]) -> str:
    """The setting that `name`, which is none, stands for: as the papers write it, without its
    group, or misspelt."""
    *_, last = name.split(".")
    if last in _AS_WRITTEN:
        return _AS_WRITTEN[last]
    group = name.rpartition(".")[0].partition(".")[0]
    siblings = tuple(one for one in known if group and one.startswith(f"{group}."))
    alike = tuple(one for one in known if one.rpartition(".")[2] == last)
    return closest(name, siblings or alike or known)


def _signed(name: str, overrides: Sequence[str]) -> str:
    """The name as it was typed: an experiment has a plus."""
    matches = (_TYPED.fullmatch(text) for text in overrides)
    return next((m["sign"] + name for m in matches if m and m["name"] == name), name)


def _value(name: str, overrides: Sequence[str]) -> str:
    matches = (_TYPED.fullmatch(text) for text in overrides)
    return next((m["value"] for m in matches if m and m["name"] == name), "")


def setting_names() -> Iterator[str]:
    """Dotted names of all settings, and of the groups that hold them."""
    with packaged():
        plain: Any = OmegaConf.to_container(compose("config"))
    yield from dict.fromkeys(name.split(".")[0] for name in flattened(plain))
    yield from flattened(plain)
