"""Types of values that settings share: what is accepted, the bounds, and how a refusal reads.

Besides these, a plain `str`, `bool`, `float`, `Literal` or group is checked as it is: text is no
number, true is no number, and a whole number is taken for a `float`.
"""

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


def _distinct(values: list[Any]) -> list[Any]:
    unique = sorted(set(values))
    if len(unique) < len(values):
        raise RefusedError("lists a value twice", str(unique))
    return values


# A whole number; 8.0 is one.
Whole = Annotated[int, BeforeValidator(_whole)]
# A whole number above 0.
PositiveInt = Annotated[Whole, Gt(0), Says("must be a finite number above 0", "1")]
# A whole number, 0 or more.
NonNegativeInt = Annotated[Whole, Ge(0), Says("must be a finite number, 0 or more", "0")]

Positive = Annotated[float, AllowInfNan(False), Gt(0), Says("must be a finite number above 0", "1")]
NonNegative = Annotated[
    float, AllowInfNan(False), Ge(0), Says("must be a finite number, 0 or more", "0")
]
# Above 0, at most 1.
Share = Annotated[float, Gt(0), Le(1), Says("is a share: above 0, at most 1", "1")]

# A list; a single value is a list of one.
Listed = Annotated[list[T], BeforeValidator(_listed)]
# A list of one value or more, none of which comes twice.
Distinct = Annotated[Listed[T], MinLen(1), AfterValidator(_distinct)]
