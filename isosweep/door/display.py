"""How notebooks show an object: a heading, sentences and tables, as Markdown or HTML."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A heading, sentences and tables; each table has its head first."""

    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Sequence[Sequence[str]], ...] = ()

    def markdown(self) -> str:
        """The parts as Markdown, in which signs of the sentences are escaped."""
        parts = [f"**{_plain(self.heading)}**", *map(_plain, self.sentences)]
        for head, *rows in self.tables:
            lines = [head, ["---"] * len(head), *rows]
            parts.append("\n".join(f"| {' | '.join(map(_plain_cell, line))} |" for line in lines))
        return "\n\n".join(parts)

    def html(self) -> str:
        """The parts as HTML."""
        parts = [f"<p><strong>{_escaped(self.heading)}</strong></p>"]
        parts += [f"<p>{_escaped(sentence)}</p>" for sentence in self.sentences]
        for head, *rows in self.tables:
            lines = [_line(head, "th"), *(_line(row, "td") for row in rows)]
            parts.append(f"<table>{''.join(lines)}</table>")
        return "\n".join(parts)


def _line(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    """Text as HTML. Each dollar has its own tag: notebooks would read a formula between two."""
    return escape(text).replace("$", "<span>$</span>")


def _plain(text: str) -> str:
    """Text with the signs of Markdown escaped."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|~$" else sign for sign in text)


def _plain_cell(text: str) -> str:
    return text if text == "---" else _plain(text)
