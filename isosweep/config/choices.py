"""Names that a user may have meant."""

import difflib

from isosweep.errors import SettingError


def closest(word: str, choices: tuple[str, ...]) -> str:
    """Of `choices` (at least one) the one that looks most like `word`."""
    matches = difflib.get_close_matches(word, choices, n=1, cutoff=0.0)
    return matches[0] if matches else choices[0]


def one_of(setting: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise SettingError unless `value` is among `choices`, which are only known while running."""
    if value not in choices:
        rule = f"must be one of {', '.join(choices)}"
        raise SettingError(setting, value, rule, f"{setting}={closest(str(value), choices)}")
