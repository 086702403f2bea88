"""The terminal: what others wrote reaches it as text, and never as a command to it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from isosweep.config.sweep import SweepConfig
from isosweep.words.escape import printable


def typed(setting: str, value: object) -> str:
    """The setting as a shell takes it, in a command that is shown to be typed: all of it one word,
    on one line."""
    return quote(printable(f"{setting}={value}").replace("\n", "\\n"))


def warn(console: Console, *lines: str) -> None:
    """Print warnings in yellow."""
    say(console, *(f"warning: {line}" for line in lines), style="yellow")


def say(console: Console, *lines: str, style: str | None = None) -> None:
    """Print lines as they are: none of them is markup, and a terminal breaks the long ones."""
    for line in lines:
        console.print(line, style=style, markup=False, soft_wrap=True)


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """The rows as lines: each column as wide as its longest cell, the first `left` of them set
    left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    return [
        "  ".join(
            side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def show_json(console: Console, document: Mapping[str, Any]) -> None:
    """Print a document for programs."""
    print(json.dumps(document, indent=1, allow_nan=False), file=console.file)


class Terminal(Console):
    """A console on which every text is `printable`: colours and moves are rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As the console's, of which all that is shown is made."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)


def progress_console(config: SweepConfig, console: Console) -> Console:
    """Return where a command says what it does: `console`, or standard error where that is to hold
    a document alone (`format=json`)."""
    return console if config.format == "text" else Terminal(stderr=True, highlight=False)
