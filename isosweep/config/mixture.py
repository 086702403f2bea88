"""A mixture of tasks: its parts, and the share that each has of the problems that are drawn."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from isosweep.config.choices import closest
from isosweep.config.settings import settings
from isosweep.errors import SettingError

# Names of parts are names of evaluation sets too: parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# A point of a schedule has this beside the shares, so no part can be called so.
_AT = "at"


@settings("task.mixture")
class MixtureConfig:
    """Several tasks, the parts, of which a run draws its problems in turn."""

    parts: dict[str, Any]
    """The parts by name, each with the settings of a whole task, as the group `task` has them."""
    shares: Any = None
    """Share of each part in the problems drawn, by its name; null: equal shares."""
    schedule: Any = None
    """In the place of `shares`, shares that change: a list of them, each with the number `at` of
    problems drawn before. Between two they change evenly, and the last ones stay."""

    def __post_init__(self) -> None:
        self._check_names()
        if self.shares is not None:
            self._check_shares(self.shares, self.names)
        if self.schedule is not None:
            self._check_schedule(self.schedule)

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
            rule = "has no part"
            raise SettingError(name, "{}", rule, f"+task@{name}.digits=sort")
        for part, task in self.parts.items():
            fixed = re.sub(r"[^A-Za-z0-9_-]+", "_", part) or "part"
            if not _NAME.fullmatch(part) or part == _AT:
                rule = "is no name of a part: letters, digits, - and _ make one, and `at` is none"
                nearest = f"{name}.{'at_' if part == _AT else fixed}"
                raise SettingError(f"{name}.{part}", "{...}", rule, nearest)
            if not isinstance(task, dict):
                rule = "must be the settings of a task"
                raise SettingError(f"{name}.{part}", task, rule, f"+task@{name}.{part}=sort")

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
        """The error of shares, or of the schedule, with the nearest that can be."""
        if not scheduled:
            name = "task.mixture.shares"
            # With ++ names may be new to the shares that a file gives.
            mended = _typed(self._mended(self.shares))
            return SettingError(name, self.shares, rule, f"'++{name}={mended}'")
        name = "task.mixture.schedule"
        given = self.schedule if isinstance(self.schedule, list) else [self.schedule]
        points = self._mended_points(given).items()
        shown = [f"{{{_AT}:{at},{_typed(shares)[1:]}" for at, shares in points]
        nearest = f"'{name}=[{','.join(shown)}]'" if shown else f"{name}=null"
        return SettingError(name, self.schedule, rule, nearest)

    def _mended_points(self, given: list[Any]) -> dict[int, dict[str, float]]:
        """Points in order, the first at 0, and one at each place."""
        points = [point if isinstance(point, dict) else {} for point in given]
        places: list[Any] = [point.get(_AT) for point in points]
        whole = [round(at) if _is_number(at) and at >= 0 else 0 for at in places]
        ordered = sorted(zip(whole, points, strict=True), key=lambda pair: pair[0])
        found = {at: self._mended(point) for at, point in reversed(ordered)}
        first = min(found, default=0)
        return {(0 if at == first else at): found[at] for at in sorted(found)}

    def _mended(self, given: Any) -> dict[str, float]:
        """Shares of all parts that keep as much of what was given as can be."""
        shares = dict.fromkeys(self.names, 0.0)
        for name, share in given.items() if isinstance(given, Mapping) else ():
            free = tuple(part for part in self.names if part not in given)
            if name != _AT and _is_number(share) and share > 0 and (name in shares or free):
                part = name if name in shares else closest(str(name), free)
                shares[part] += float(share)
        total = math.fsum(shares.values())
        if not total:
            return dict.fromkeys(self.names, 1 / len(self.names))
        return {name: share / total for name, share in shares.items()}


def of_part(name: str, error: SettingError) -> SettingError:
    """The error of a task as one of the settings of the part `name`."""
    place = f"task.mixture.parts.{name}"

    def renamed(text: str) -> str:
        chosen = re.sub(r"(?<![\w.@])task=", f"+task@{place}=", text)
        return re.sub(r"(?<![\w.@])task\.", f"{place}.", chosen)

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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _typed(shares: Mapping[str, float]) -> str:
    return f"{{{','.join(f'{name}:{share:.6g}' for name, share in shares.items())}}}"
