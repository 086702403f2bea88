"""A mixture of tasks: its parts, and the share that each has of the problems that are drawn."""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from isosweep.config.base import Settings
from isosweep.errors import SettingError

# Names of parts are names of evaluation sets too: parts of paths, and of the names of metrics.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# Names of parts are keys of shares on the command line, where these are no text.
_NO_TEXT = ("true", "false", "null", "nan", "inf")


class MixtureConfig(Settings, group="task.mixture"):
    """Several tasks (parts) in one run."""

    parts: dict[str, Any]
    """The parts by name, each with all settings of a task."""
    shares: Any = None
    """Share of each part in the problems drawn, by name; null: equal shares."""

    def _check(self) -> None:
        self._check_names()
        if self.shares is not None:
            self._check_shares(self.shares)

    @property
    def names(self) -> tuple[str, ...]:
        """The parts' names, in the order in which all that is numbered comes."""
        return tuple(sorted(self.parts))

    @cached_property
    def share_of(self) -> dict[str, float]:
        """Share of each part, in the order of `names`: they add up to 1."""
        given = self.shares or dict.fromkeys(self.parts, 1.0)
        total = math.fsum(given[name] for name in self.names)
        return {name: given[name] / total for name in self.names}

    def _check_names(self) -> None:
        name = "task.mixture.parts"
        if not self.parts:
            raise SettingError(name, "{}", f"has no part, as +task@{name}.digits=sort adds one")
        for part, task in self.parts.items():
            if not _is_name(part):
                rule = (
                    "is no name of a part: letters, digits, - and _ make one, a letter first, and "
                    f"{', '.join(_NO_TEXT)} are none"
                )
                raise SettingError(f"{name}.{part}", "{...}", rule)
            if not isinstance(task, dict):
                raise SettingError(f"{name}.{part}", task, "must be the settings of a task")

    def _check_shares(self, shares: Any) -> None:
        """Raise SettingError unless each part has a share, which add up to 1."""
        if not isinstance(shares, dict):
            raise self._refused("gives each part its share, by its name")
        for name, share in shares.items():
            if name not in self.names:
                rule = f"has a share of {name!r}, and the parts are {', '.join(self.names)}"
                raise self._refused(rule)
            if not _is_number(share) or share < 0:
                raise self._refused(f"has {name}: {share}, which is no finite number, 0 or more")
        if lacking := ", ".join(name for name in self.names if name not in shares):
            raise self._refused(f"lacks {lacking}; a part that is only evaluated has a share of 0")
        total = math.fsum(shares.values())
        if not abs(total - 1) < 1e-5:
            raise self._refused(f"has shares that add up to {total:g}, not 1")

    def _refused(self, rule: str) -> SettingError:
        return SettingError("task.mixture.shares", self.shares, rule)


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
    return bool(_NAME.fullmatch(part)) and part.lower() not in _NO_TEXT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
