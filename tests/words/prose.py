"""Words and long sentences of Markdown pages.

Code, tables, headings and addresses of links are no prose; a colon or a semicolon ends a sentence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONG = 30
_BLOCKS = re.compile(r"\A---.*?^---$|^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"^([-*]|\d+\.) ")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z*(\[\"`0-9])")
_WORD = re.compile(r"[\w*$%.,'/-]+")


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Of one page: `words` in all of its text, and what is found in its `sentences`."""

    words: int
    sentences: tuple[str, ...]

    @property
    def long(self) -> list[str]:
        """Sentences of more than 30 words."""
        return [each for each in self.sentences if len(_WORD.findall(each)) > LONG]


def read_prose(page: Path) -> Prose:
    """What a page's reader reads."""
    text = page.read_text(encoding="utf-8")
    return Prose(words=len(text.split()), sentences=tuple(_sentences(_BLOCKS.sub("", text))))


def _sentences(text: str) -> Iterator[str]:
    paragraph: list[str] = []
    for line in [*text.split("\n"), ""]:
        stripped, code = line.strip(), line.startswith("    ") and not paragraph
        apart = not stripped or code or stripped.startswith(("|", "#", "!", "<", ":::"))
        if paragraph and (apart or _ITEM.match(stripped)):
            joined = re.sub(r"`[^`]*`", "CODE", _LINK.sub(r"\1", " ".join(paragraph)))
            yield from (each for each in _END.split(joined) if each)
            paragraph = []
        if not apart:
            paragraph.append(_ITEM.sub("", stripped, count=1))
