"""What Hydra refuses of a command, in words: the setting, the rule, and the nearest that works."""

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from isosweep.config.aliases import alias
from isosweep.config.base import (
    AXIS_GROUPS,
    NO_SUCH,
    NOT_TYPED,
    SLIP,
    Settings,
    group_in,
    meant,
    settings_in,
    typed_name,
)
from isosweep.config.overrides import shell_quoted
from isosweep.config.sweep import Mode, SweepConfig
from isosweep.errors import SettingError

PARSER = OverridesParser.create()
# What Hydra raises where settings do not compose, of its own and of those below it.
UNCOMPOSED = (HydraException, OmegaConfBaseException, YAMLError)
# A name as it is typed, with the signs that Hydra has before one.
TYPED = re.compile(r"(?P<sign>[+~]{0,2})(?P<name>[^=]+)=?(?P<value>.*)", re.DOTALL)
# What a model or a data set is called elsewhere.
_SOURCE = re.compile(r"^ *(?:source|dataset): (\S+)", re.MULTILINE)
# Hydra's messages for a name without a place, and for a value with two meanings.
_NO_PLACE = re.compile(
    r"(?:Could not (?:override|delete from config\.) '|Error merging override )([^'=]+)"
)
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")
# What takes any model of a disk, and any problems.
_ANY = {
    "model": ["model=local model.path=DIRECTORY"],
    "task": ["task=math_file task.math.path=FILE"],
}
# Sweeps that differ in these alone are one and the same.
_ALIKE = (
    *("sweep", "sweeps_dir", "hardware", "launcher", "tracking", "analysis", "checkpoint"),
    *("health", "difficulty"),
)


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent.parent / "conf"


def choices_of(conf: Path, group: str) -> list[str]:
    """The choices of one group of the directory `conf`, without what others are built on."""
    found = sorted((conf / group).rglob("*.yaml"))
    paths = [path.relative_to(conf / group).with_suffix("") for path in found]
    return [path.as_posix() for path in paths if not path.name.startswith("_")]


def is_group(name: str) -> bool:
    """Whether `name`, as it is typed, is that of a group of choices."""
    return bool(name) and (config_directory() / name.lstrip("+~").partition("@")[0]).is_dir()


def parsed(override: str) -> Override | None:
    """The override, None where Hydra's grammar has no place for it."""
    try:
        return PARSER.parse_overrides([override])[0]
    except OverrideParseException:
        return None


def setting_names(kind: type[Settings] = SweepConfig, group: str = "") -> Iterator[str]:
    """Dotted names of all settings and of the groups that hold them, but of sets by name."""
    for field, item in kind.model_fields.items():
        name = f"{group}{typed_name(field)}"
        if field not in (*NOT_TYPED, "sets", "parts"):
            yield name
            if inner := group_in(item):
                yield from setting_names(inner, f"{name}.")


def require_choices(overrides: Sequence[str]) -> None:
    """Raise SettingError for a choice that only other files are built on (`model=_llm`), for a list
    of choices, of which Hydra composes all and the last one counts, for a choice that is typed as
    its label (`recipe.name=dapo`), and for several `sweeps_dir`."""
    for text in overrides:
        match, override = TYPED.fullmatch(text), parsed(text)
        if match is None or override is None:
            continue
        group, choice = match["name"], match["value"]
        if group == "sweeps_dir" and override.is_sweep_override():
            # Hydra's own file of a multirun would lie in none.
            rule = "is one directory, which holds all sweeps of a multirun"
            raise SettingError(group, choice, rule, alias(f"{group}={choice}"))
        labelled = group.removesuffix(".name")
        known, chosen = choices_of(config_directory(), labelled), f"{labelled}={choice}"
        if labelled != group and choice in known and chosen not in overrides:
            rule = f"is a label, and changes nothing else; {labelled} is chosen without .name"
            raise SettingError(group, choice, rule, chosen)
        if not is_group(group):
            continue
        value, shown = override.value(), match["sign"] + group
        for several in value.list if isinstance(value, ChoiceSweep) else [value]:
            if isinstance(several, list) and len(several) != 1:
                rule = "takes one choice; of a list, only the last would be trained"
                raise SettingError(
                    shown, choice, rule, _compared(shown, ",".join(map(str, several)))
                )
        if choice.startswith("_") and (config_directory() / group / f"{choice}.yaml").is_file():
            rule = f"is only a part of other choices: {', '.join(known)}"
            raise SettingError(shown, choice, rule)


def refusal(error: Exception, overrides: Sequence[str]) -> SettingError:
    """What Hydra refuses of `overrides`, as an error of the setting or of the file."""
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return SettingError("file", mark.name, f"is no YAML: {error.problem}, line {mark.line + 1}")
    if isinstance(error, OverrideParseException):
        name, equals, value = error.override.partition("=")
        if equals:
            rule = "cannot be read: brackets and quotes are closed, and text with signs has quotes"
            return SettingError(name, value, rule)
        rule = "is not SETTING=VALUE; a value with spaces has quotes"
        return SettingError("overrides", name, rule, meant(name, get_args(Mode), "mode={}"))
    given = {match["name"]: match for match in map(TYPED.fullmatch, overrides) if match}
    if isinstance(error, MissingConfigException) and error.options:
        # A choice may lie in a folder of its group, where Hydra lists none: tiny/mixture.
        group, _, choice = str(error.missing_cfg_file).partition("/")
        options = sorted({*error.options, *choices_of(config_directory(), group)})
        options = [option for option in options if not option.startswith("_")]
        sign = given[group]["sign"] if group in given else ""
        likely = ", or ".join(sign + each for each in nearest_choices(group, choice, options))
        return SettingError(sign + group, choice, f"must be one of {', '.join(options)}", likely)
    words = " ".join(str(error).split())
    if match := _NO_PLACE.match(words):
        name = match[1]
        sign, value = given[name].group("sign", "value") if name in given else ("", "")
        reason = " ".join(str(error.__cause__ or error).split("\n")[:1])
        return _without_place(name, sign, value, reason)
    if match := _AMBIGUOUS.match(words):
        name, _, value = match[1].partition("=")
        rule = "several values are a list in brackets, or with -m on the command line a sweep each"
        setting = name if is_group(name) or name in setting_names() else nearest_setting(name)
        return SettingError(name, value, rule, setting and _compared(setting, value.strip(",")))
    return SettingError("overrides", shlex.join(overrides), words)


def _without_place(typed: str, sign: str, value: str, reason: str) -> SettingError:
    """The refusal of an override of a name that the config has no place for."""
    *groups, name = typed.split(".")
    if groups[1:] and groups[1] not in settings_in(SweepConfig, groups[:1]):
        groups, name = groups[:1], groups[1]
    known, nearest = settings_in(SweepConfig, groups), nearest_typed(typed, value)
    rule = "no such setting"
    if name in known:
        # Of a choice that brings the setting: trainer=command trainer.command=...
        group, choice = [*groups, name, name][:2]
        brought = choice in choices_of(config_directory(), group)
        nearest = f"{group}={choice} {shell_quoted(f'{typed}={value}')}" if brought else ""
        rule = f"cannot be set so: {reason}"
    elif is_group(typed):
        rule, nearest = "is chosen beside the defaults", f"+{typed}={value}"
    elif not nearest:
        rule = f"no such setting; here are {', '.join(known)}" if groups else NO_SUCH
    return SettingError(sign + typed, value, rule, nearest)


def nearest_typed(name: str, value: str) -> str:
    """What is typed in the place of `name=value`, which is no setting; "" if nothing is near."""
    found = alias(f"{name}={value}")
    if not found and (setting := nearest_setting(name)):
        found = f"{setting}={shell_quoted(value) or 'VALUE'}"
    group, _, choice = found.partition("=")
    # A data file is a task by itself.
    if is_group(group) and not (group == "task" and Path(choice).suffix):
        options = choices_of(config_directory(), group)
        return ", or ".join(nearest_choices(group, choice, options)) or found
    return found


def nearest_setting(name: str) -> str:
    """The dotted name nearest to `name`: an alias, or spelled alike in the group that was typed, if
    one was; "" if none is."""
    if found := alias(f"{name}=VALUE"):
        return found.partition("=")[0].strip("\"'")
    group, _, leaf = name.rpartition(".")
    names = [*setting_names()]
    leaves = {each.rpartition(".")[2]: each for each in reversed(names)}
    near = [each for each in names if group and each.startswith(f"{group.partition('.')[0]}.")]
    inner = {each.rpartition(".")[2]: each for each in reversed(near)} or leaves
    found = meant(leaf, [*inner])
    return inner[found] if found else leaves.get(leaf, "")


def nearest_choices(group: str, given: str, options: Sequence[str]) -> list[str]:
    """At most three of a group's `options`, as they are typed: those whose name, or source on a
    hub, is like `given` or holds it; else what takes any model or task."""
    if found := alias(f"{group}={given}"):
        return [found]
    word = given.casefold()
    names = {**sources_in(group, options), **{option: option for option in options}}
    if word in names:
        return [f"{group}={names[word]}"]
    holding = [names[name] for name in names if len(word) > 2 and word in name]
    # Another device is no slip.
    slip = difflib.get_close_matches(word, names, n=1, cutoff=SLIP if group != "hardware" else 1)
    likest = [*dict.fromkeys(holding)][:3] or [names[name] for name in slip]
    return [f"{group}={each}" for each in likest] or _ANY.get(group, [])


def sources_in(group: str, options: Sequence[str]) -> dict[str, str]:
    """The first option of each model or data set that the group's files name, in lower case."""
    sources: dict[str, str] = {}
    for option in options:
        path = config_directory() / group / f"{option}.yaml"
        for source in _SOURCE.findall(path.read_text(encoding="utf-8")) if path.is_file() else ():
            sources.setdefault(source.casefold(), option)
    return sources


def _compared(name: str, values: str) -> str:
    """How several `values` of a setting or group are compared: as axis, in a list, or by -m."""
    group = name.lstrip("+").partition(".")[0]
    if not values or (found := alias(f"{name}={values}")):
        return values and found
    if group in AXIS_GROUPS:
        axis = shell_quoted(f"grid.axes={{{name.lstrip('+')}:[{values}]}}")
        # A model brings the hardware and grid that others are compared on.
        return f"model={values.partition(',')[0]} {axis}" if name == "model" else axis
    ways = [] if is_group(name) else [f"{name}=[{values}]"]
    return ", or ".join([*ways, *([f"-m {name}={values}"] if group not in _ALIKE else [])])
