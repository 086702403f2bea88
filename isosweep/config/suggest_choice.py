"""Which choice of a group of settings was most likely meant, by the files of the choices."""

import re
from collections.abc import Sequence
from pathlib import Path

from isosweep.config.choices import meant
from isosweep.config.suggest import ANYTHING, MANY, on_disk

# Letters in which names of models differ from those of our choices.
_ADDED = re.compile(r"[-_.]?(?:instruct|base|chat|hf|it)$")


def choice(group: str, given: str, options: Sequence[str], folder: Path) -> str:
    """The choices of `group` that `given` may mean: by their names, and by what their files in
    `folder` say (a model's or data set's name elsewhere)."""
    if group == "model" and (given.startswith(("/", "./", "../", "~")) or Path(given).is_dir()):
        return on_disk(given)
    if near := meant(given, options):
        return f"{group}={near}"
    word = given.casefold()
    likely = [each for each in options if word.startswith(each) or (word and word in each)]
    short = _ADDED.sub("", word.rpartition("/")[2])
    for text in dict.fromkeys((word, short)):
        likely = likely or [each for each in options if text in _said(folder / f"{each}.yaml")]
    if not likely and (near := meant(short, options)):
        likely = [near]
    if not likely and len(word) > 2:
        whole = re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])")
        likely = [each for each in options if whole.search(_text(folder / f"{each}.yaml"))]
    if not likely:
        return ANYTHING.get(group, "")
    more = ", ..." if likely[MANY:] else ""
    return ", ".join(f"{group}={each}" for each in likely[:MANY]) + more


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").casefold() if path.is_file() else ""


def _said(path: Path) -> str:
    """A file's settings, without comments."""
    return "\n".join(line.partition("#")[0] for line in _text(path).splitlines())
