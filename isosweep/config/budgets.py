"""Budgets as a user writes them: a number, a list, or a log-spaced range."""

import math
import re
from typing import Any

from isosweep.errors import SettingError

_LOGSPACE = re.compile(r"logspace[(:]([^,:]+)[,:]([^,:]+)[,:]([^,:)]+)\)?")


def parse_budgets(value: Any) -> tuple[float, ...]:
    """Budgets, ascending, from a number, its text, a list of them, or `logspace:1e18:1e20:5`.

    `logspace(1e18,1e20,5)`, which a shell and Hydra want quoted, means the same: 5 budgets from
    1e18 to 1e20, equal steps apart in log C. Raises SettingError for anything that is not a
    finite number above 0, and for duplicates.
    """
    spaced = _LOGSPACE.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if spaced is not None:
        return _logspace(value, *spaced.groups())
    values = list(value) if isinstance(value, list | tuple) else [value]
    example = "budget=1e11, budget=[1e11,2e11] or budget=logspace:1e10:1e11:3"
    if not values:
        raise SettingError("budget", value, "must list at least one number", example)
    budgets = []
    for item in values:
        number = _number(item)
        if not (math.isfinite(number) and number > 0):
            rule = "must be a finite number above 0, in budget_unit"
            raise SettingError("budget", item, rule, example)
        budgets.append(number)
    return _distinct(value, budgets, "lists a value twice")


def _distinct(value: Any, budgets: list[float], rule: str) -> tuple[float, ...]:
    """The budgets, ascending; SettingError with `rule` where two are the same."""
    unique = sorted(set(budgets))
    if len(unique) < len(budgets):
        short = {budget: f"{budget:g}" for budget in unique}
        listed = ",".join(s if float(s) == b else repr(b) for b, s in short.items())
        raise SettingError("budget", value, rule, f"budget=[{listed}]")
    return tuple(unique)


def _logspace(value: str, low: str, high: str, count: str) -> tuple[float, ...]:
    first, last, number = _number(low), _number(high), _number(count)
    if not (0 < first < last < math.inf and number >= 2 and number.is_integer()):
        turned = 0 < last < first < math.inf and number >= 2
        raise SettingError(
            "budget",
            value,
            "logspace takes two numbers, 0 < first < last, and how many budgets, 2 or more",
            f"budget=logspace:{high}:{low}:{count}" if turned else "budget=logspace:1e18:1e20:5",
        )
    steps = int(number) - 1
    # Three digits, so that a budget can be typed again; the ends stay as they were given.
    inner = [float(f"{first * (last / first) ** (i / steps):.3g}") for i in range(1, steps)]
    rule = "gives a value twice: budgets between the ends are rounded to three digits"
    return _distinct(value, [first, *inner, last], rule)


def _number(value: Any) -> float:
    """`value` as a float; NaN where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan
