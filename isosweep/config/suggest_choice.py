"""Which choices of a group of settings may be meant, by their names and by their files."""

import re
from collections.abc import Sequence
from pathlib import Path

from isosweep.config.choices import close, meant
from isosweep.config.overrides import shell_quoted
from isosweep.config.suggest import ANYTHING, on_disk

# Letters in which names of models differ from those of our choices.
_ADDED = re.compile(r"[-_.]?(?:instruct|base|chat|hf|it)$")
# What a model or a data set is called elsewhere.
_SOURCE = re.compile(r"^ *(?:source|dataset): (\S+)", re.MULTILINE)
# Letters of which a part of a name has to have more.
_SHORT = 2


def choice(group: str, given: str, options: Sequence[str], folder: Path) -> list[str]:
    """The choices of `group`, whose files are in `folder`, that `given` may mean."""
    if group == "model" and (given.startswith(("/", "./", "../", "~")) or Path(given).is_dir()):
        return [on_disk(shell_quoted(given))]
    word = given.casefold()
    short = _ADDED.sub("", word.rpartition("/")[2])
    likely = [each for each in options if each in (word, short)]
    likely = likely or [each for each in options if len(word) > _SHORT and word in each]
    if group == "hardware":
        likely = likely or [each for each in options if each in word]
    elif not likely and group in ANYTHING and len(short) > _SHORT:
        likely = [each for each in options if _plain(short) in _source(folder / f"{each}.yaml")]
    # Another number is another choice: qwen3-14b is no slip for qwen-14b.
    near = "" if group == "hardware" else meant(given, options)
    if not likely and near and re.findall(r"\d", near) == re.findall(r"\d", given):
        likely = [near]
    if group == "experiment":
        likely = likely or close(given, options, 3)
    return [f"{group}={each}" for each in likely] or [*filter(None, [ANYTHING.get(group)])]


def _plain(name: str) -> str:
    return re.sub("[-_.]", "", name)


def _source(path: Path) -> str:
    found = _SOURCE.findall(path.read_text(encoding="utf-8")) if path.is_file() else ()
    return _plain(" ".join(found).casefold())
