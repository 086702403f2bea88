"""The decorator of every group of settings: a frozen dataclass whose values are validated.

Types, choices, bounds and defaults are on the fields; `__post_init__` checks only what several
fields must be together, and raises SettingError itself.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs, CoreSchema

from isosweep.config.refusal import setting_error

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
                raise setting_error(made, group, error) from None

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
        raise setting_error(kind, known.__settings_group__, error) from None
    return made


def _accept_mappings(kind: Any, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """A group inside another may be given as a dictionary, which strict values would forbid."""
    schema: Any = handler.resolve_ref_schema(handler(source))
    schema["strict"] = False
    return schema  # type: ignore[no-any-return]
