"""`mode=advise`: what published laws and points choose at a budget, before any run."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from isosweep import words
from isosweep.config.overrides import typed
from isosweep.config.sweep import SweepConfig
from isosweep.files import to_json
from isosweep.modes.terminal import say, show_json

# Macros of advise.j2, each a column of the table.
COLUMNS = ("source", "n", "B", "range", "measured")


def show_advice(config: SweepConfig, console: Console) -> int:
    """Print what every source chooses, where they disagree, and the sweep that would decide; 0.

    Raises SettingError as `advise` does.
    """
    from isosweep.analysis.advice.advise import advise

    document = to_json(asdict(advise(config, _given(config))))
    if config.format == "json":
        show_json(console, document)
        return 0
    sources = {each["name"]: each for each in document["sources"]}
    for advice in document["advice"]:
        say(console, *words.lines("advise", "headline", advice))
        console.print(_table(advice["answers"], sources))
        say(console, *words.lines("advise", "conclusion", advice, sources))
    return 0


def _table(answers: Sequence[dict[str, Any]], sources: dict[str, dict[str, Any]]) -> Table:
    """A row for each source that gives an n: of those that are comparable, if there are any."""
    some = any(each["comparable"] for each in answers if each["n"])
    table = Table(*(words.line("advise", "heading", name) for name in COLUMNS))
    for each in answers:
        if each["n"] is not None and each["comparable"] is some:
            source = sources[each["name"]]
            table.add_row(*(words.line("advise", f"cell_{c}", each, source) for c in COLUMNS))
    return table


def _given(config: SweepConfig) -> list[str]:
    """The overrides of this job, as they were typed; of a multirun, a setting has the job's value.

    A choice of group that only the command line knows, `+experiment`, is the same for all jobs.
    """
    plain = [text for text in sys.argv[1:] if not text.startswith("-")]
    texts = {text.partition("=")[0].lstrip("+~"): text for text in plain}
    several = bool({"-m", "--multirun"} & set(sys.argv[1:]))
    overrides = []
    for name in config.given:
        group, *rest = name.split(".")
        value = getattr(config, group, None)
        if name not in texts or (several and value is not None):
            for part in rest:
                value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
            value = value if rest else getattr(value, "name", value)
            overrides.append(f"{name}={typed(value)}")
        else:
            overrides.append(texts[name])
    return overrides
