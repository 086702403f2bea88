"""Names that a user may have meant."""

import difflib
from collections.abc import Sequence

from isosweep.errors import SettingError

# Of difflib's ratio: what is less alike is no guess, and no slip of the hand.
_ALIKE, _SLIP = 0.5, 0.75


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


def meant(word: str, choices: Sequence[str], shown: str = "{}") -> str:
    """The one of `choices` that `word` is most likely a slip for, as `shown`; "" if none is."""
    written = {choice.casefold(): choice for choice in reversed(choices)}
    # Letters that have changed places are the slip that difflib rates too low.
    swapped = [each for each in written if sorted(each) == sorted(word.casefold())]
    likest = swapped or difflib.get_close_matches(word.casefold(), written, n=1, cutoff=_SLIP)
    return shown.format(written[likest[0]]) if likest else ""


def one_of(setting: str, value: str, choices: Sequence[str]) -> None:
    """Raise SettingError unless `value` is among `choices`, which are only known while running."""
    if value not in choices:
        rule = f"must be one of {', '.join(choices)}"
        raise SettingError(setting, value, rule, meant(value, choices, f"{setting}={{}}"))
