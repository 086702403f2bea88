"""How notebooks show an object: a heading, sentences and tables, as Markdown."""

from collections.abc import Sequence


def markdown(
    *,
    heading: str,
    sentences: Sequence[str] = (),
    tables: Sequence[Sequence[Sequence[str]]] = (),
) -> str:
    """The parts as Markdown, whose signs in the texts are escaped; a table has its head first."""
    parts = [f"**{_plain(heading)}**", *map(_plain, sentences)]
    for head, *rows in tables:
        lines = [map(_plain, head), ["---"] * len(head), *(map(_plain, row) for row in rows)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|~$" else sign for sign in text)
