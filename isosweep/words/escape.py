"""Texts of others, shown as text: never as a command to a terminal, nor over what stands beside."""

import unicodedata

# Line ends, tabs, and the joiners that Arabic, Indic scripts and emoji are written with.
_KEPT = frozenset("\n\t\u200c\u200d")


def printable(text: str) -> str:
    r"""Return `text` with control, direction and invisible characters written out: `\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if _shown(c) else ascii(c)[1:-1] for c in text)


def _shown(character: str) -> bool:
    return (
        character.isprintable()
        or character in _KEPT
        # Spaces of other widths, as Chinese has them.
        or unicodedata.category(character) == "Zs"
    )
