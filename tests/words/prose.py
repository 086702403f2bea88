"""Words and long sentences of Markdown pages: python -m tests.words.prose FILE... prints them.

Code, tables, headings and addresses of links are no prose; a colon or a semicolon ends a sentence.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONG = 30
_BLOCKS = re.compile(r"\A---.*?^---$|^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"^([-*]|\d+\.) ")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z*(\[\"`0-9])")
_WORD = re.compile(r"[\w*$%.,'/-]+")
_SHORTHAND = re.compile(
    r"\b(asked|told|stands|holds|comes to|of before|as it is|tells first|of which)\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Of one page: `words` in all of its text, and what is found in its `sentences`."""

    words: int
    sentences: tuple[str, ...]

    @property
    def long(self) -> list[str]:
        """Sentences of more than 30 words."""
        return [each for each in self.sentences if len(_WORD.findall(each)) > LONG]

    @property
    def shorthand(self) -> list[str]:
        """Words that point at a thing instead of naming it."""
        return [found for each in self.sentences for found in _SHORTHAND.findall(each)]


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


if __name__ == "__main__":
    print("  words sentences  long shorthand")
    for path in map(Path, sys.argv[1:]):
        of = read_prose(path)
        print(f"{of.words:7} {len(of.sentences):9} {len(of.long):5} {len(of.shorthand):9}  {path}")
        for sentence in of.long:
            print(f"    {sentence}")
