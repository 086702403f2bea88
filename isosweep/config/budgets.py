"""Budgets as a user writes them: a number, a list, or a log-spaced range."""

import math
import re
from typing import Any

_LOGSPACE = re.compile(r"logspace[(:]([^,:]+)[,:]([^,:]+)[,:]([^,:)]+)\)?")


def parse_budgets(value: Any) -> tuple[float, ...]:
    """Budgets, ascending, from a number, its text, a list of them, or `logspace:1e18:1e20:5`.

    `logspace(1e18,1e20,5)`, which a shell and Hydra want quoted, means the same: 5 budgets from
    1e18 to 1e20, equal steps apart in log C. Raises ValueError for anything that is not a
    finite number above 0, and for duplicates.
    """
    spaced = _LOGSPACE.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if spaced is not None:
        return _logspace(*spaced.groups())
    values = list(value) if isinstance(value, list | tuple) else [value]
    budgets = [_number(item) for item in values]
    if not budgets or not all(math.isfinite(number) and number > 0 for number in budgets):
        raise ValueError("must be a finite number above 0, in budget_unit, or a list of these")
    return _ascending(budgets, "lists a value twice")


def _ascending(budgets: list[float], rule: str) -> tuple[float, ...]:
    """The budgets in order. Raises ValueError with `rule` where two are the same."""
    if len(set(budgets)) < len(budgets):
        raise ValueError(rule)
    return tuple(sorted(budgets))


def _logspace(low: str, high: str, count: str) -> tuple[float, ...]:
    first, last, number = _number(low), _number(high), _number(count)
    if not (0 < first < last < math.inf and number >= 2 and number.is_integer()):
        raise ValueError(
            "logspace takes two numbers, 0 < first < last, and how many budgets, 2 or more"
        )
    steps = int(number) - 1
    # Three digits, so that a budget can be typed again; the ends stay as they were given.
    inner = [float(f"{first * (last / first) ** (i / steps):.3g}") for i in range(1, steps)]
    rule = "gives a value twice: budgets between the ends are rounded to three digits"
    return _ascending([first, *inner, last], rule)


def _number(value: Any) -> float:
    """`value` as a float; NaN where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan
