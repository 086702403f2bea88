"""Names that a user may have meant."""

import difflib
from collections.abc import Sequence

from isosweep.errors import SettingError

# Of difflib's ratio: what is less alike is no guess.
_ALIKE = 0.5


def close(word: str, choices: Sequence[str], most: int) -> list[str]:
    """Of `choices` at most so many, those that look most like `word` or begin with it, the likest
    first; the first ones where none does."""
    written = {choice.casefold(): choice for choice in choices}
    word = word.casefold()
    begun = [each for each in written if word and each.startswith(word)]
    likest = [
        *difflib.get_close_matches(word, written, n=most, cutoff=_ALIKE),
        *difflib.get_close_matches(word, begun, n=most, cutoff=0.0),
    ]
    return [written[each] for each in dict.fromkeys(likest)][:most] or list(choices[:most])


def one_of(setting: str, value: str, choices: Sequence[str]) -> None:
    """Raise SettingError unless `value` is among `choices`, which are only known while running."""
    if value not in choices:
        raise SettingError(setting, value, f"must be one of {', '.join(choices)}")
