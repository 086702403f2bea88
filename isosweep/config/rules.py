"""Rules that settings keep, each told with the nearest choice that works."""

import difflib
import math

from isosweep.errors import SettingError


def require(holds: bool, setting: str, value: object, rule: str, nearest: object) -> None:
    if not holds:
        raise SettingError(setting, value, rule, str(nearest))


def closest(word: str, choices: tuple[str, ...]) -> str:
    matches = difflib.get_close_matches(word, choices, n=1, cutoff=0.0)
    return matches[0] if matches else choices[0]


def one_of(setting: str, value: str, choices: tuple[str, ...]) -> None:
    rule = f"must be one of {', '.join(choices)}"
    require(value in choices, setting, value, rule, f"{setting}={closest(str(value), choices)}")


def positive(group: str, instance: object, *names: str) -> None:
    for name in names:
        value = getattr(instance, name)
        if value is not None:
            require(
                math.isfinite(value) and value > 0,
                f"{group}.{name}",
                value,
                "must be a finite number above 0",
                f"{group}.{name}=1",
            )


def distinct(setting: str, values: list[int], least: int, why: str) -> None:
    require(bool(values), setting, values, "must list at least one value", f"{setting}=[{least}]")
    for value in values:
        require(value >= least, setting, value, why, f"{setting}=[{least}]")
    unique = sorted(set(values))
    require(
        len(unique) == len(values), setting, values, "lists a value twice", f"{setting}={unique}"
    )


def shortened(values: set[int]) -> str:
    """Sorted values as text, the middle of a long list left out."""
    texts = [str(value) for value in sorted(values)]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:4], "...", *texts[-3:]])
