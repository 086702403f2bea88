"""What pydantic refuses, in a user's words: setting, value, rule, nearest choice that works."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isosweep.config.choices import closest
from isosweep.config.values import ANY_POSITIVE, RefusedError, Says
from isosweep.errors import SettingError

# What is wanted where a value has the wrong type, and an example of it.
_WRONG_TYPE = {
    "int_type": ("must be a whole number", "1"),
    "float_type": ("must be a number", "1.0"),
    "string_type": ("must be text", "name"),
    "bool_type": ("must be true or false", "true"),
    "dict_type": ("must be a group of settings", "{}"),
    "dataclass_type": ("must be a group of settings", "{}"),
}
# Of the top, what no command line has: it follows from others, or has another name there.
_NOT_TYPED = ("given", "loss_sources", "from_sweep")
_UNKNOWN = ("unexpected_keyword_argument", "invalid_key")


def setting_error(kind: type, group: str, error: ValidationError) -> SettingError:
    """The first thing wrong with an instance of the dataclass `kind`, the settings of `group`.

    A misspelt name comes before what is missing, which may be the name that was meant.
    """
    first = min(error.errors(include_url=False), key=_urgency)
    if first["loc"][-1:] == ("[key]",):
        setting = ".".join(str(part) for part in (*group.split(), *first["loc"][:-2]))
        nearest = f"{setting}=null, or names in quotes"
        return SettingError(setting, first["input"], "must have names that are text", nearest)
    # A list's setting is named, not the place in the list; a number as a name is in no list.
    unknown = first["type"] in _UNKNOWN
    names = [str(part) for part in first["loc"] if unknown or not isinstance(part, int)]
    setting = ".".join([group, *names] if group else names)
    value, rule, nearest = _explained(kind, first, setting)
    example = first["type"] in _WRONG_TYPE or nearest == f"{setting}={ANY_POSITIVE}"
    return SettingError(setting, value, rule, nearest, example=example)


def _urgency(error: ErrorDetails) -> int:
    return 0 if error["type"] in _UNKNOWN else 1 if error["type"] == "missing" else 2


def _explained(kind: type, error: ErrorDetails, setting: str) -> tuple[Any, str, str]:
    """The value that is refused, the rule, and the nearest choice as it is typed."""
    value = error["input"]
    if error["type"] in _UNKNOWN:
        group, _ = _declared(kind, error["loc"][:-1])
        known = tuple(item.name for item in fields(group) if item.name not in _NOT_TYPED)
        *parents, name = setting.split(".")
        nearest = ".".join([*parents, closest(name, known)])
        return value, f"no such setting; here are {', '.join(known)}", nearest
    if error["type"] == "missing":
        return "", "has no value and no default", f"{setting}=VALUE"
    if error["type"] in _WRONG_TYPE:
        rule, example = _WRONG_TYPE[error["type"]]
        if any(isinstance(part, int) for part in error["loc"]):
            # Of a list, which a single value need not be.
            example = f"[{example}]"
        return value, rule, f"{setting}={example}"
    declared, marks = _declared(kind, error["loc"])
    if error["type"] == "literal_error":
        choices = get_args(declared)
        rule = f"must be one of {', '.join(choices)}"
        return value, rule, f"{setting}={closest(str(value), choices)}"
    refused = error.get("ctx", {}).get("error")
    if isinstance(refused, RefusedError):
        return value, refused.rule, f"{setting}={refused.nearest}"
    own = [mark for mark in marks if isinstance(mark, Says)]
    if own:
        return value, own[-1].rule, f"{setting}={own[-1].nearest}"
    return value, error["msg"].replace("Input should", "must"), f"{setting}=VALUE"


def _declared(kind: type, loc: tuple[int | str, ...]) -> tuple[Any, list[Any]]:
    """The type that is declared at `loc` under a dataclass, and what `Annotated` adds to it."""
    declared: Any = kind
    marks: list[Any] = []
    for part in loc:
        if isinstance(part, int):
            (declared,) = get_args(declared)
        elif get_origin(declared) is dict:
            _, declared = get_args(declared)
        else:
            declared = next(item.type for item in fields(declared) if item.name == part)
        declared, marks = _unwrapped(declared)
    return declared, marks


def _unwrapped(declared: Any) -> tuple[Any, list[Any]]:
    """A type without `Annotated` and without None, and what `Annotated` adds, outermost first."""
    marks: list[Any] = []
    while True:
        if get_origin(declared) is Annotated:
            declared, *added = get_args(declared)
            marks = [*marks, *added]
        elif get_origin(declared) in (Union, UnionType):
            (declared,) = (option for option in get_args(declared) if option is not NoneType)
        else:
            return declared, marks
