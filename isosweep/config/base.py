"""The base of every group of settings: a frozen pydantic model, and the errors of its values.

Types, choices, bounds and defaults are on the fields; `_check` refuses only what several
fields must be together.
"""

import ast
import inspect
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from isosweep.config.choices import meant
from isosweep.config.variants import AXIS_GROUPS
from isosweep.errors import SettingError


class Settings(BaseModel):
    """A group of settings: frozen, with names that are known, and values that are validated.

    Strict: text is no number and true is none either. What is wrong with a value raises
    SettingError, also from the constructor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    group: ClassVar[str] = ""
    """Its dotted name on the command line; "" at the top."""

    def __init_subclass__(cls, group: str = "", **further: Any) -> None:
        super().__init_subclass__(**further)
        cls.group = group

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _refusal(type(self), error) from None

    # Groups inside another are read without it: their errors have a longer name.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def model_post_init(self, context: Any, /) -> None:
        """Check what several settings of the group must be together."""
        self._check()

    def _check(self) -> None:
        """Raise SettingError for a rule that these settings break together."""


T = TypeVar("T", bound=Settings)


def load(kind: type[T], values: Any) -> T:
    """The settings of class `kind` that plain nested dictionaries hold.

    Raises SettingError for an unknown key, a missing one, a value of the wrong type, or a broken
    rule.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _refusal(kind, error) from None


def replaced(settings: T, **values: Any) -> T:
    """The settings with these `values` in the place of theirs, validated anew."""
    kept = {name: getattr(settings, name) for name in type(settings).model_fields}
    return type(settings)(**kept | values)


# Of a name at the top, where there are dozens.
NO_SUCH = "no such setting; --help lists the groups, and --cfg job every setting"
# What no command line has: it follows from others, or has another name there.
_NOT_TYPED = ("given", "loss_sources", "from_sweep", "composed")
# What Python lets no field be called, by the field's name.
_TYPED = {"importing": "import", "from_sweep": "from"}


def typed_name(field_name: str) -> str:
    """What a field is called on the command line."""
    return _TYPED.get(field_name, field_name)


def _refusal(kind: type[Settings], error: ValidationError) -> SettingError:
    """The first thing wrong with an instance of the settings class `kind`.

    A misspelt name comes before what is missing, which may be the name that was meant.
    """
    urgency = {"extra_forbidden": 0, "invalid_key": 0, "missing": 1}
    first = min(error.errors(include_url=False), key=lambda each: urgency.get(each["type"], 2))
    loc, broken = first["loc"], first["type"]
    unknown = urgency.get(broken) == 0
    value, nearest = "" if broken == "missing" else first["input"], ""
    if unknown:
        own = settings_in(kind, loc[:-1])
        rule = f"no such setting; here are {', '.join(own)}"
        if not kind.group and not loc[1:]:
            rule = NO_SUCH
        nearest = meant(str(loc[-1]), own)
        if nearest:
            groups = (kind.group, *map(str, loc[:-1]), nearest)
            nearest, rule = ".".join(filter(None, groups)), "no such setting"
    elif broken == "missing":
        rule = "has no value and no default"
    elif broken == "model_type":
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
            shown = ".".join(filter(None, (kind.group, *map(str, loc))))
            nearest = meant(str(value), words, f"{shown}={{}}")
    # A list's setting is named, not the place in the list; a number as a name is in no list.
    names = (typed_name(str(each)) for each in loc if unknown or not isinstance(each, int))
    setting = ".".join(filter(None, (kind.group, *names)))
    return SettingError(setting, value, rule, nearest)


def settings_in(kind: type[Settings], groups: Sequence[object]) -> list[str]:
    """Names of the settings of a group, of those in the settings class `kind`: `groups` are all
    that it is in, and itself."""
    for name in groups:
        found = [each for own, each in kind.model_fields.items() if typed_name(own) == name]
        # Of sets of settings by name, the name is any.
        kind = group_in(found[0]) or kind if found else kind
    return [typed_name(name) for name in kind.model_fields if name not in _NOT_TYPED]


def group_in(field: FieldInfo) -> type[Settings] | None:
    """The settings class in the type of a field, such as `SortConfig | None`."""
    return _group_in(field.annotation)


def _group_in(declared: Any) -> type[Settings] | None:
    if isinstance(declared, type) and issubclass(declared, Settings):
        return declared
    return next(filter(None, map(_group_in, get_args(declared))), None)


def meanings(kind: type[Settings]) -> dict[str, str]:
    """The text under each field of the class, and of those that it extends, by the field's name.

    Pydantic's `use_attribute_docstrings` would read the same of every class at every start, which
    takes 90 ms.
    """
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[: kind.__mro__.index(Settings)]):
        (body,) = (node.body for node in ast.parse(inspect.getsource(base)).body)  # type: ignore[attr-defined]
        for field, text in pairwise(body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(meaning))),
                ):
                    texts[name] = " ".join(meaning.split())
    return texts
