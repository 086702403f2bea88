"""A mixture of tasks: its parts, and the share that each has of the problems that are drawn."""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from isosweep.config.settings import settings
from isosweep.errors import SettingError

# Names of parts are names of evaluation sets too: parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# A point of a schedule has this beside the shares, so no part can be called so.
_AT = "at"
# Names of parts are keys of shares on the command line, where these are no text.
_NO_TEXT = ("true", "false", "null", "nan", "inf")


@settings("task.mixture")
class MixtureConfig:
    """Several tasks (parts) in one run."""

    parts: dict[str, Any]
    """The parts by name, each with all settings of a task."""
    shares: Any = None
    """Share of each part in the problems drawn, by name; null: equal shares."""
    schedule: Any = None
    """Shares that change, in place of `shares`: a list of shares, each with the number `at` of
    problems drawn before. Between two points shares change evenly; the last ones stay."""

    def __post_init__(self) -> None:
        self._check_names()
        if self.shares is not None:
            self._check_shares(self.shares, self.names)
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        if self.shares is not None and self.schedule is not None:
            rule = "replaces task.mixture.shares, which would have no effect"
            raise SettingError("task.mixture.schedule", self.schedule, rule)

    @property
    def names(self) -> tuple[str, ...]:
        """The parts' names, in the order in which all that is numbered comes."""
        return tuple(sorted(self.parts))

    @cached_property
    def points(self) -> tuple[tuple[int, dict[str, float]], ...]:
        """Problems drawn, and the shares then: ascending, the first at 0. Shares add up to 1."""
        equal = dict.fromkeys(self.parts, 1 / len(self.parts))
        found = []
        for point in self.schedule or [self.shares or equal]:
            total = math.fsum(point[name] for name in self.names)
            found.append((int(point.get(_AT, 0)), {n: point[n] / total for n in self.names}))
        return tuple(found)

    def shares_at(self, drawn: int) -> dict[str, float]:
        """Shares of the parts once `drawn` problems have been drawn."""
        earlier = [point for point in self.points if point[0] <= drawn]
        later = [point for point in self.points if point[0] > drawn]
        (start, before), (end, after) = earlier[-1], (later or earlier[-1:])[0]
        way = (drawn - start) / (end - start) if later else 0.0
        return {name: before[name] + way * (after[name] - before[name]) for name in self.names}

    @property
    def last_shares(self) -> dict[str, float]:
        """Shares from the end of the schedule on."""
        return self.points[-1][1]

    @property
    def largest_shares(self) -> dict[str, float]:
        """The largest share that each part ever has."""
        return {name: max(shares[name] for _, shares in self.points) for name in self.names}

    def _check_names(self) -> None:
        name = "task.mixture.parts"
        if not self.parts:
            raise SettingError(name, "{}", f"has no part, as +task@{name}.digits=sort adds one")
        for part, task in self.parts.items():
            if not _is_name(part):
                rule = (
                    "is no name of a part: letters, digits, - and _ make one, a letter first, and "
                    f"{', '.join((_AT, *_NO_TEXT))} are none"
                )
                raise SettingError(f"{name}.{part}", "{...}", rule)
            if not isinstance(task, dict):
                raise SettingError(f"{name}.{part}", task, "must be the settings of a task")

    def _check_shares(self, point: Any, known: Sequence[str]) -> None:
        """Raise SettingError unless `point` has all of `known`, with shares that add up to 1."""
        scheduled = _AT in known
        if not isinstance(point, dict):
            raise self._refused(scheduled, "gives each part its share, by its name")
        for name, share in point.items():
            if name not in known:
                rule = f"has a share of {name!r}, and the parts are {', '.join(self.names)}"
                raise self._refused(scheduled, rule)
            if not _is_number(share) or share < 0:
                rule = f"has {name}: {share}, which is no finite number, 0 or more"
                raise self._refused(scheduled, rule)
        if lacking := ", ".join(name for name in known if name not in point):
            rule = f"lacks {lacking}; a part that is only evaluated has a share of 0"
            raise self._refused(scheduled, rule)
        total = math.fsum(point[name] for name in self.names)
        if not abs(total - 1) < 1e-5:
            raise self._refused(scheduled, f"has shares that add up to {total:g}, not 1")

    def _check_schedule(self, points: Any) -> None:
        if not isinstance(points, list) or not points:
            raise self._refused(True, "is a list of shares, each with `at`, or null")
        for point in points:
            self._check_shares(point, (*self.names, _AT))
        places = [point[_AT] for point in points]
        whole = all(float(place).is_integer() for place in places)
        if not whole or places[0] != 0 or sorted(set(places)) != places:
            shown = ", ".join(f"{place:g}" for place in places)
            rule = f"has points at {shown}: whole numbers of problems drawn, which ascend from 0"
            raise self._refused(True, rule)

    def _refused(self, scheduled: bool, rule: str) -> SettingError:
        """The error of shares, or of the schedule."""
        name = "schedule" if scheduled else "shares"
        return SettingError(f"task.mixture.{name}", getattr(self, name), rule)


def of_part(name: str, error: SettingError) -> SettingError:
    """The error of a task as one of the settings of the part `name`."""
    place = f"task.mixture.parts.{name}"

    def renamed(text: str) -> str:
        return re.sub(r"(?<![\w.@])task\.", f"{place}.", text)

    return SettingError(
        renamed(error.setting), error.value, renamed(error.rule), renamed(error.nearest)
    )


def apportioned(number: int, shares: Sequence[float]) -> list[int]:
    """`number` in these shares, of 1: whole numbers, the largest remainders rounded up."""
    exact = [number * share for share in shares]
    counts = [math.floor(value + 1e-9) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: number - sum(counts)]:
        counts[i] += 1
    return counts


def _is_name(part: str) -> bool:
    return bool(_NAME.fullmatch(part)) and part.lower() not in (_AT, *_NO_TEXT)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
