"""Types of values that settings share: what is accepted, the bounds, and how a refusal reads.

Besides these, a plain `str`, `bool`, `float`, `Literal` or group is checked as it is: text is no
number, true is no number, and a whole number is taken for a `float`.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, AllowInfNan, BeforeValidator

T = TypeVar("T")


@dataclass(frozen=True)
class Says:
    """How a refusal reads where a bound of the type that it is given with is broken.

    `nearest` is a value that works, as it is typed. Of several the last counts.
    """

    rule: str
    nearest: str


class RefusedError(ValueError):
    """A value that a validator of one field refuses; setting and value are added to it."""

    def __init__(self, rule: str, nearest: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.nearest = nearest


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


# As many seeds are written out where a number may have meant so many.
_WRITTEN_OUT = 10


def _seeds(value: Any) -> Any:
    """A list as it is: a number alone may be one seed, or how many."""
    if isinstance(value, list):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RefusedError("must be a list of seeds", "[0]")
    if value > _WRITTEN_OUT:
        raise RefusedError("must be a list of seeds", f"[{value}]")
    rule = f"must be a list: {value} seed{'s' * (value > 1)}, or the seed {value}"
    raise RefusedError(rule, f"[{','.join(map(str, range(value)))}], or [{value}]")


def _distinct(values: list[Any]) -> list[Any]:
    unique = sorted(set(values))
    if len(unique) < len(values):
        raise RefusedError("lists a value twice", str(unique))
    return values


# What isosweep itself keeps beside the sweeps.
_TAKEN = ("runs", "multirun", "difficulty", "studies", "mlartifacts", "mlruns")
# Names of files have 255 bytes at most, and what is written beside a sweep adds to its own.
_LONGEST = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _digits(value: Any) -> Any:
    """A name of digits only, such as a date, which is read as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _directory_name(value: str) -> str:
    free = value if value not in _TAKEN else f"{value}-1"
    if not _NAME.fullmatch(free):
        free = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("._-") or "first"
    if free != value or len(value) > _LONGEST:
        rule = (
            f"must begin with a letter or digit and go on with these, `.`, `_` and `-`, "
            f"{_LONGEST} at most; {', '.join(_TAKEN)} are taken"
        )
        raise RefusedError(rule, free[:_LONGEST])
    return value


# A sweep's name, which is that of its directory.
DirectoryName = Annotated[str, BeforeValidator(_digits), AfterValidator(_directory_name)]
# A whole number; 8.0 is one.
Whole = Annotated[int, BeforeValidator(_whole)]
# A whole number above 0.
PositiveInt = Annotated[Whole, Gt(0), Says("must be a finite number above 0", "1")]
# A whole number, 0 or more.
NonNegativeInt = Annotated[Whole, Ge(0), Says("must be a finite number, 0 or more", "0")]

# No number is the nearest above 0.
ANY_POSITIVE = "1.0"
Positive = Annotated[
    float, AllowInfNan(False), Gt(0), Says("must be a finite number above 0", ANY_POSITIVE)
]
NonNegative = Annotated[
    float, AllowInfNan(False), Ge(0), Says("must be a finite number, 0 or more", "0")
]
# Above 0, at most 1.
Share = Annotated[float, Gt(0), Le(1), Says("is a share: above 0, at most 1", "1")]

# A list; a single value is a list of one.
Listed = Annotated[list[T], BeforeValidator(_listed)]
# A list of one value or more, none of which comes twice.
Distinct = Annotated[Listed[T], MinLen(1), AfterValidator(_distinct)]
# Values of `Distinct` that have to be in a list.
Seeds = Annotated[Distinct[T], BeforeValidator(_seeds)]
