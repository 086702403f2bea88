"""Types of values that settings share: what is accepted, and the bounds.

Besides these, a plain `str`, `bool`, `float`, `Literal` or group is checked as it is: text is no
number, true is no number, and a whole number is taken for a `float`. A validator of one field
raises ValueError with the rule that is broken; setting and value are added to it.
"""

import re
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, AllowInfNan, BeforeValidator

from isosweep.reserved import is_beside_sweeps

T = TypeVar("T")


class MistypedError(ValueError):
    """What a value breaks, and `nearest`, as it would be typed."""

    def __init__(self, rule: str, nearest: str) -> None:
        super().__init__(rule)
        self.nearest = nearest


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _seeds(value: Any) -> Any:
    if isinstance(value, list):
        return value
    rule = "must be a list of seeds: a number may be one seed, or how many"
    raise MistypedError(rule, seed_lists(value))


def seed_lists(value: object) -> str:
    """Both lists of seeds that a number may mean."""
    text = str(value)
    if not text.isdigit() or not 0 < int(text) <= 20:
        return "grid.seeds=[0,1,2]"
    listed = ",".join(map(str, range(int(text))))
    return f"grid.seeds=[{listed}] for {text} seeds, or grid.seeds=[{text}] for seed {text}"


def _distinct(values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError("lists no value")
    if len(set(values)) < len(values):
        raise ValueError("lists a value twice")
    return values


def or_empty(value: Any) -> Any:
    """A dictionary, which null stands for: Hydra refuses names that are not in one already."""
    return {} if value is None else value


# Names of files have 255 bytes at most, and what is written beside a sweep adds to its own.
_LONGEST = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{,{_LONGEST - 1}}}")


def _directory_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"must begin with a letter or digit and go on with these, `.`, `_` and `-`, "
            f"{_LONGEST} at most"
        )
    if is_beside_sweeps(value):
        raise MistypedError("is the name of a file of isosweep's own", f"name=my-{value}")
    return value


# A sweep's name, which is that of its directory.
DirectoryName = Annotated[str, AfterValidator(_directory_name)]
# A whole number; 8.0 is one.
Whole = Annotated[int, BeforeValidator(_whole)]
PositiveInt = Annotated[Whole, Gt(0)]
NonNegativeInt = Annotated[Whole, Ge(0)]
Positive = Annotated[float, AllowInfNan(False), Gt(0)]
NonNegative = Annotated[float, AllowInfNan(False), Ge(0)]
# Above 0, at most 1.
Share = Annotated[float, Gt(0), Le(1)]

# A list; a single value is a list of one.
Listed = Annotated[list[T], BeforeValidator(_listed)]
# A list of one value or more, none of which comes twice.
Distinct = Annotated[Listed[T], AfterValidator(_distinct)]
# Values of `Distinct` that have to be in a list.
Seeds = Annotated[Distinct[T], BeforeValidator(_seeds)]
