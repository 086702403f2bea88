"""The decorator of every group of settings: a frozen dataclass whose values are validated.

Types, choices, bounds and defaults are on the fields; `__post_init__` checks only what several
fields must be together, and raises SettingError itself.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import field, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform, get_args

from pydantic import ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs, CoreSchema

from isosweep.config.choices import meant
from isosweep.config.variants import AXIS_GROUPS
from isosweep.errors import SettingError

T = TypeVar("T")
# Strict: text is no number and true is none either.
_CONFIG = ConfigDict(extra="forbid", strict=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def settings(group: str) -> Callable[[type[T]], type[T]]:
    """Make a class a frozen, validated dataclass of keyword arguments.

    `group` is its dotted name on the command line, "" at the top. What is wrong with a value raises
    SettingError, also from the constructor and from `dataclasses.replace`.
    """

    def decorate(plain: type[T]) -> type[T]:
        plain.__get_pydantic_core_schema__ = classmethod(_accept_mappings)  # type: ignore[attr-defined]
        made: Any = dataclass(plain, frozen=True, kw_only=True, config=_CONFIG)

        def __init__(self: Any, /, **values: Any) -> None:  # noqa: N807
            try:
                given = ArgsKwargs((), values)
                made.__pydantic_validator__.validate_python(given, self_instance=self)
            except ValidationError as error:
                raise _refusal(made, error) from None

        made.__init__ = __init__
        made.__settings_group__ = group
        return made  # type: ignore[no-any-return]

    return decorate


def read(kind: type[T], values: Any) -> T:
    """An instance of the settings class `kind` from plain nested dictionaries.

    Raises SettingError for an unknown key, a missing one, a value of the wrong type, or a broken
    rule.
    """
    known: Any = kind
    try:
        made: T = known.__pydantic_validator__.validate_python(values)
    except ValidationError as error:
        raise _refusal(kind, error) from None
    return made


def _accept_mappings(kind: Any, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """A group inside another may be given as a dictionary, which strict values would forbid."""
    schema: Any = handler.resolve_ref_schema(handler(source))
    schema["strict"] = False
    return schema  # type: ignore[no-any-return]


# Of a name at the top, where there are dozens.
NO_SUCH = "no such setting; --help lists the groups, and --cfg job every setting"
_UNKNOWN = ("unexpected_keyword_argument", "invalid_key")
# What no command line has: it follows from others, or has another name there.
_NOT_TYPED = ("given", "loss_sources", "from_sweep", "composed")
# What Python lets no field be called, by the field's name.
_TYPED = {"importing": "import", "from_sweep": "from"}


def typed_name(field_name: str) -> str:
    """What a field is called on the command line."""
    return _TYPED.get(field_name, field_name)


def _refusal(kind: Any, error: ValidationError) -> SettingError:
    """The first thing wrong with an instance of the settings class `kind`.

    A misspelt name comes before what is missing, which may be the name that was meant.
    """
    urgency = {**dict.fromkeys(_UNKNOWN, 0), "missing": 1}
    first = min(error.errors(include_url=False), key=lambda each: urgency.get(each["type"], 2))
    loc, broken = first["loc"], first["type"]
    value, nearest = "" if broken == "missing" else first["input"], ""
    if broken in _UNKNOWN:
        own = settings_in(kind, loc[:-1])
        rule = f"no such setting; here are {', '.join(own)}"
        if not kind.__settings_group__ and not loc[1:]:
            rule = NO_SUCH
        nearest = meant(str(loc[-1]), own)
        if nearest:
            groups = (kind.__settings_group__, *map(str, loc[:-1]), nearest)
            nearest, rule = ".".join(filter(None, groups)), "no such setting"
    elif broken == "missing":
        rule = "has no value and no default"
    elif broken == "dataclass_type":
        rule = "must be a group of settings"
    elif loc[-1] == "[key]":
        rule = "must have names that are text"
        if broken == "literal_error":
            rule = f"has names of {first['ctx']['expected']}"
        loc = loc[:-2]
    else:
        # Of a validator of ours, or pydantic's own words: Input should be greater than 0.
        raised = first.get("ctx", {}).get("error")
        subject, _, wanted = first["msg"].partition(" should ")
        rule = str(raised) if raised else f"must {wanted}" if wanted else subject
        nearest = getattr(raised, "nearest", "")
        # Layouts of devices and evaluation sets are no axes.
        if isinstance(value, list) and loc[0] in AXIS_GROUPS[:4] and loc[1:2] != ("sets",):
            listed = ",".join(map(str, value))
            nearest = f"'grid.axes={{{'.'.join(map(str, loc))}:[{listed}]}}'"
        elif broken == "literal_error":
            words = re.findall("'([^']*)'", first["ctx"]["expected"])
            place = (kind.__settings_group__, *map(str, loc))
            shown = ".".join(filter(None, place))
            nearest = meant(str(value), words, f"{shown}={{}}")
    # A list's setting is named, not the place in the list; a number as a name is in no list.
    names = (
        typed_name(str(each)) for each in loc if broken in _UNKNOWN or not isinstance(each, int)
    )
    setting = ".".join(filter(None, (kind.__settings_group__, *names)))
    return SettingError(setting, value, rule, nearest)


def settings_in(kind: Any, groups: Sequence[object]) -> list[str]:
    """Names of the settings of a group, of those in the settings class `kind`: `groups` are all
    that it is in, and itself."""
    for name in groups:
        declared = next((item.type for item in fields(kind) if typed_name(item.name) == name), None)
        # Of sets of settings by name, the name is any.
        kind = group_in(declared) or kind
    return [typed_name(item.name) for item in fields(kind) if item.name not in _NOT_TYPED]


def group_in(declared: Any) -> Any:
    """The settings class in a declared type, such as `SortConfig | None`."""
    inner = (group_in(option) for option in get_args(declared))
    return declared if is_dataclass(declared) else next(filter(None, inner), None)
