"""`recipe.schedule`: settings that change within a run, at amounts of compute that it has spent.

    {num_generations: {2e10: 16, 4e10: 32}}                           values from amounts on
    {problems_per_batch: {from: 1e10, times: 2, every: 2, to: 64}}    factors at a series of amounts

Amounts are in the sweep's budget unit, and no shares of a budget: one run serves all budgets.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Schedule = dict[str, dict[str, float]]

_SERIES = ("from", "times", "every", "to")


def _count(least: int) -> Callable[[float], bool]:
    return lambda value: value >= least and float(value).is_integer()


# Smaller factors would make hundreds of phases, each with a checkpoint and a record.
LEAST_RISE, LEAST_FALL = 1.1, 0.9

# What a setting may be, in words and as a test.
_VALUES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "num_generations": ("whole numbers of 2 or more", _count(2)),
    "problems_per_batch": ("whole numbers of 1 or more", _count(1)),
    "learning_rate": ("numbers above 0", lambda value: value > 0),
}
SETTINGS = tuple(_VALUES)


def checked(given: dict[str, Any] | None) -> Schedule | None:
    """The schedule with amounts as text, as JSON keeps them; ValueError with the broken rule."""
    if given is None:
        return None
    if not given or set(given) - set(SETTINGS):
        raise ValueError(f"schedules one or more of {', '.join(SETTINGS)}")
    return {setting: _numbers(setting, changes) for setting, changes in given.items()}


def changes(schedule: Schedule, setting: str, start: float) -> list[tuple[float, float]]:
    """Amounts of compute, ascending, and the value of `setting` from each on, where a run starts
    with `start`.

    A series gives start x times^k, rounded for counts, from `from` x every^(k - 1) on, k = 1, 2,
    ..., up to the first at `to` or past it, which is `to`.
    """
    given = schedule.get(setting, {})
    if "from" not in given:
        return sorted((float(amount), value) for amount, value in given.items())
    made: list[tuple[float, float]] = []
    amount, value, times, last = float(given["from"]), start, given["times"], given["to"]
    while value < last if times > 1 else value > last:
        value = value * times
        within = min(value, last) if times > 1 else max(value, last)
        made.append((amount, within if setting == "learning_rate" else float(round(within))))
        amount *= given["every"]
    return made


def value_at(schedule: Schedule, setting: str, start: float, amount: float) -> float:
    """The value of `setting` once `amount` is spent."""
    reached = [value for at, value in changes(schedule, setting, start) if at <= amount]
    return reached[-1] if reached else start


def amounts(schedule: Schedule, starts: Mapping[str, Sequence[float]]) -> list[float]:
    """Where a run that starts with any of the `starts` of each setting changes one, ascending."""
    return sorted(
        {
            amount
            for setting in schedule
            for start in starts[setting]
            for amount, _ in changes(schedule, setting, start)
        }
    )


def largest(schedule: Schedule | None, setting: str, starts: Sequence[int]) -> int:
    """The largest value of a count in any run that starts with one of `starts`."""
    changed = [value for start in starts for _, value in changes(schedule or {}, setting, start)]
    return int(max([*starts, *changed]))


def _numbers(setting: str, given: Any) -> dict[str, float]:
    words, allowed = _VALUES[setting]
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{setting} takes {{amount: value}} or {{from, times, every, to}}")
    numbers = {_name(key): _number(setting, value) for key, value in given.items()}
    values = numbers.values()
    if set(numbers) & set(_SERIES):
        if set(numbers) != set(_SERIES):
            raise ValueError(f"a series of {setting} has {', '.join(_SERIES)}")
        if numbers["from"] <= 0 or numbers["every"] <= 1:
            raise ValueError(f"a series of {setting} has `from` above 0 and `every` above 1")
        if numbers["times"] <= 0 or LEAST_FALL < numbers["times"] < LEAST_RISE:
            rule = f"`times` of {LEAST_RISE} or more, or of {LEAST_FALL} or less and above 0"
            raise ValueError(f"a series of {setting} has {rule}")
        values = {"to": numbers["to"]}.values()
    if not all(map(allowed, values)):
        raise ValueError(f"{setting} takes {words}")
    return numbers


def _name(key: Any) -> str:
    """A series' word as it is, an amount as the shortest text of the number."""
    if key in _SERIES:
        return str(key)
    try:
        amount = float(key)
    except (TypeError, ValueError):
        amount = math.nan
    if not 0 < amount < math.inf:
        raise ValueError(f"amounts of compute are numbers above 0 (here {key})")
    return repr(amount)


def _number(setting: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{setting} takes numbers (here {value})")
    return value
