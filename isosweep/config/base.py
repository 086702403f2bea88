"""The base of every group of settings: frozen pydantic models, types of values, and errors.

Besides the types here, a plain `str`, `bool`, `float`, `Literal` or group is checked as it is: text
is no number, true is no number, and a whole number is taken for a `float`. A validator of one field
raises ValueError with the rule that is broken. `_check` of a group refuses what several fields must
be together.
"""

import ast
import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from annotated_types import Ge, Gt, Le
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
)
from pydantic.fields import FieldInfo

from isosweep.config.aliases import alias
from isosweep.errors import SettingError
from isosweep.reserved import is_beside_sweeps

_V = TypeVar("_V")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _seeds(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError("must be a list of seeds: a number may be one seed, or how many")
    return value


def _distinct(values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError("lists no value")
    if len(set(values)) < len(values):
        raise ValueError("lists a value twice")
    return values


def _named(values: dict[str, Any]) -> dict[str, Any]:
    for name in values:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError(f"has a name {name!r}: letters, digits, - and _ make one")
    return values


def or_empty(value: Any) -> Any:
    """A dictionary, which null stands for: Hydra refuses names that are not in one already."""
    return {} if value is None else value


# Names of files have 255 bytes at most, and what is written beside a sweep adds to its own.
_LONGEST = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{,{_LONGEST - 1}}}")


def is_place(sweep: str) -> bool:
    """Whether a sweep is named by its directory, and not by its name in `sweeps_dir`."""
    return "/" in sweep or sweep.startswith((".", "~"))


def _sweep(value: str) -> str:
    if is_place(value):
        return value
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"must begin with a letter or digit and go on with these, `.`, `_` and `-`, "
            f"{_LONGEST} at most"
        )
    if is_beside_sweeps(value):
        raise ValueError("is the name of a file of isosweep's own")
    return value


# A sweep: its name, which is that of its directory in `sweeps_dir`, or another directory.
SweepName = Annotated[str, AfterValidator(_sweep)]
# A whole number; 8.0 is one.
Whole = Annotated[int, BeforeValidator(_whole)]
PositiveInt = Annotated[Whole, Gt(0)]
NonNegativeInt = Annotated[Whole, Ge(0)]
Positive = Annotated[float, AllowInfNan(False), Gt(0)]
NonNegative = Annotated[float, AllowInfNan(False), Ge(0)]
# Above 0, at most 1.
Share = Annotated[float, Gt(0), Le(1)]

# A list; a single value is a list of one.
Listed = Annotated[list[_V], BeforeValidator(_listed)]
# Values by names, which are parts of paths, and of the names of metrics.
Named = Annotated[dict[str, _V], AfterValidator(_named)]
# A list of one value or more, none of which comes twice.
Distinct = Annotated[Listed[_V], AfterValidator(_distinct)]
# Values of `Distinct` that have to be in a list.
Seeds = Annotated[Distinct[_V], BeforeValidator(_seeds)]


# Of difflib's ratio: below the first nothing is alike, and above the second it is a slip.
_ALIKE, SLIP = 0.5, 0.75


def close(word: str, choices: Sequence[str], most: int) -> list[str]:
    """At most `most` of `choices`: those that look most like `word` or begin with it, the likest
    first, or the first ones where none does."""
    written = {choice.casefold(): choice for choice in choices}
    word = word.casefold()
    begun = [each for each in written if word and each.startswith(word)]
    likest = [
        *difflib.get_close_matches(word, written, n=most, cutoff=_ALIKE),
        *difflib.get_close_matches(word, begun, n=most, cutoff=0.0),
    ]
    return [written[each] for each in dict.fromkeys(likest)][:most] or list(choices[:most])


def meant(word: str, choices: Sequence[str], shown: str = "{}") -> str:
    """The one of `choices` that `word` is most likely a slip for, as `shown`; "" if none is."""
    written = {choice.casefold(): choice for choice in reversed(choices)}
    # Letters that have changed places are the slip that difflib rates too low.
    swapped = [each for each in written if sorted(each) == sorted(word.casefold())]
    likest = swapped or difflib.get_close_matches(word.casefold(), written, n=1, cutoff=SLIP)
    return shown.format(written[likest[0]]) if likest else ""


def one_of(setting: str, value: str, choices: Sequence[str]) -> None:
    """Raise SettingError unless `value` is among `choices`, which are only known while running."""
    if value not in choices:
        rule = f"must be one of {', '.join(choices)}"
        raise SettingError(setting, value, rule, meant(value, choices, f"{setting}={{}}"))


# Groups whose settings, and whose choices, may differ between the runs of a sweep.
AXIS_GROUPS = ("model", "task", "recipe", "evaluation", "generation")


class Settings(BaseModel):
    """A group of settings: frozen, with names that are known, and values that are validated.

    Strict: text is no number and true is none either. `load` and `replaced` make them of values
    that a user gave, and raise SettingError.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    group: ClassVar[str] = ""
    """Its dotted name on the command line; "" at the top."""

    def __init_subclass__(cls, group: str = "", **further: Any) -> None:
        super().__init_subclass__(**further)
        cls.group = group

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
    return load(type(settings), kept | values)


# Of a name at the top, where there are dozens.
NO_SUCH = "no such setting; --help lists the groups, and --cfg job every setting"
# What no command line has: it follows from others, or has another name there.
NOT_TYPED = ("given", "loss_sources", "variants")
# What Python lets no field be called, by the field's name.
_TYPED = {"importing": "import"}


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
    known = list[str]()
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
        # Layouts of devices and evaluation sets are no axes.
        if isinstance(value, list) and loc[0] in AXIS_GROUPS[:4] and loc[1:2] != ("sets",):
            listed = ",".join(map(str, value))
            nearest = f"'grid.axes={{{'.'.join(map(str, loc))}:[{listed}]}}'"
        elif broken == "literal_error":
            known = re.findall("'([^']*)'", first["ctx"]["expected"])
    # A list's setting is named, not the place in the list; a number as a name is in no list.
    names = (typed_name(str(each)) for each in loc if unknown or not isinstance(each, int))
    setting = ".".join(filter(None, (kind.group, *names)))
    nearest = nearest or alias(f"{setting}={value}") or meant(str(value), known, f"{setting}={{}}")
    return SettingError(setting, value, rule, nearest)


def settings_in(kind: type[Settings], groups: Sequence[object]) -> list[str]:
    """Names of the settings of a group, of those in the settings class `kind`: `groups` are all
    that it is in, and itself."""
    for name in groups:
        found = [each for own, each in kind.model_fields.items() if typed_name(own) == name]
        # Of sets of settings by name, the name is any.
        kind = group_in(found[0]) or kind if found else kind
    return [typed_name(name) for name in kind.model_fields if name not in NOT_TYPED]


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


def stored_settings(document: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, object]:
    """Dotted names and values of a stored sweep's variant, as `config.json` has them."""
    document = {**document}
    for variant in document.pop("variants", []):
        if variant["axes"] == axes:
            groups = {name: variant[name] for name in AXIS_GROUPS}
            document |= groups | {"grid": {**document["grid"], **variant["grid"]}}
    return flattened(document)


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Dotted names and values of nested settings."""
    flat: dict[str, object] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
