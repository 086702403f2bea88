"""Tables in text files: CSV, TSV and JSON lines, whose writer may have been killed in a line.

A last line that was not written whole is left out with a note; a broken line before it is refused
with its number.
"""

import codecs
import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.study import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import is_run_name
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Letters of one field, such as a list of successes: more than the csv module takes by default.
_LONGEST_FIELD = 1 << 30
# What separates values, in words.
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


def text_lines(path: str) -> list[str]:
    """Lines of a file in UTF-8, with their ends; bytes of a last line that was torn in the middle
    of a character are replaced.

    Raises SettingError for another encoding, with the line.
    """
    data = Path(path).read_bytes()
    if path.lower().endswith(".gz"):
        data = gzip.decompress(data)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SettingError("import.files", path, "is UTF-16, and logs are read as UTF-8", _AS_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        if b"\n" in data[error.start :]:
            raise SettingError(
                "import.files", path, f"line {number} is not UTF-8", _AS_UTF8
            ) from None
        text = data.decode(errors="replace")
    return list(io.StringIO(text, newline=""))


_AS_UTF8 = "the same file saved as UTF-8"


def read_separated(
    separator: str, paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The table in a file of separated values; names of runs are text, whatever they look like.

    Raises SettingError for another separator, and for a row with more or fewer fields than the
    header.
    """
    import pandas

    path = paths[0]
    lines = text_lines(path)
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(lines, delimiter=separator)
    header = next(reader, [])
    if not header:
        return pandas.DataFrame()
    if len(header) == 1:
        _require_separator(separator, path, header[0])
    names = {k: name for k, name in enumerate(header) if is_run_name(name, config)}
    texts: dict[int, list[str]] = {k: [] for k in names}
    end, shortest = len(lines), 0
    before = reader.line_num
    # A row is known to be the last one only where no other follows.
    for (row, first), (following, _) in pairwise(chain(_numbered(reader, before), [([], 0)])):
        unended = not following and not lines[-1].endswith(("\n", "\r"))
        if not following and (
            len(row) < len(header) or (unended and len(row[-1].strip()) < shortest)
        ):
            notes.append(Note(kind="torn", count=1, example=path))
            end = first
            break
        if len(row) != len(header):
            counts = f"{len(row)} and {len(header)}"
            rule = f"line {first + 1} and the header differ in their number of fields ({counts})"
            raise SettingError("import.files", path, rule, "the file without that line")
        width = len(row[-1].strip())
        shortest = min(shortest or width, width)
        for k, column in texts.items():
            column.append(row[k])
    frame = pandas.read_csv(io.StringIO("".join(lines[:end])), sep=separator, low_memory=False)
    for k, name in names.items():
        frame[name] = pandas.Series(texts[k], dtype=object)
    return frame


def _require_separator(separator: str, path: str, header: str) -> None:
    """Raise SettingError where something else separates the names of a header."""
    wanted = _SEPARATORS[separator]
    for other, found in _SEPARATORS.items():
        if other != separator and other in header:
            rule = f"its header is separated by {found}, and values are read between {wanted}"
            python = f"pandas.read_csv(FILE, sep={other!r})"
            nearest = f"the same table with {wanted}, or isosweep.from_frame({python}, ...)"
            raise SettingError("import.files", path, rule, nearest)


def _numbered(reader: Any, before: int) -> Iterator[tuple[list[str], int]]:
    """Rows that are not blank, each with the number of lines before it."""
    for row in reader:
        if row:
            yield row, before
        before = reader.line_num


def read_json_rows(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The rows of a file with a JSON object on each line, or with one list of objects.

    Raises SettingError for what is no JSON object, with its line.
    """
    import pandas

    path = paths[0]
    lines = text_lines(path)
    if any(line.lstrip().startswith("[") for line in lines[:1]):
        rows = _listed_rows(path, "".join(lines))
    else:
        rows = list(_rows_of_lines(path, lines, notes))
    return with_name_texts(pandas.json_normalize(rows), config)


def with_name_texts(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with names of runs as text, also those that were written as numbers."""
    names = [name for name in frame.columns if is_run_name(str(name), config)]
    return frame.assign(**{name: frame[name].map(name_text) for name in names})


def name_text(value: Any) -> Any:
    """The name that a number stands for, without the .0 that a column with gaps gives it."""
    if isinstance(value, float):
        return value if value != value else f"{value:.0f}" if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else value


def is_json_rows(path: str) -> bool:
    """Whether a `.json` file is a list of objects, or has an object on each of several lines, as
    Ray's `result.json` has."""
    if not (path.lower().endswith(".json") and Path(path).is_file()):
        return False
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        begun = file.read(1 << 16)
    start = begun.lstrip()
    if start.startswith("["):
        return start[1:].lstrip().startswith("{")
    first, _, second = start.partition("\n")
    try:
        return isinstance(json.loads(first), dict) and second.lstrip().startswith("{")
    except ValueError:
        return False


def _rows_of_lines(path: str, lines: list[str], notes: list[Note]) -> Iterator[dict[str, Any]]:
    full = [number for number, line in enumerate(lines) if line.strip()]
    for number in full:
        try:
            yield _checked(json.loads(lines[number]))
        except ValueError as error:
            # A list or a number is no part of an object: only a part of one was torn.
            if number == full[-1] and lines[number].lstrip().startswith("{"):
                notes.append(Note(kind="torn", count=1, example=path))
                return
            rule = f"line {number + 1} cannot be read as JSON: {error}"
            raise SettingError("import.files", path, rule, "the file without that line") from None


def _listed_rows(path: str, text: str) -> list[dict[str, Any]]:
    """Objects of a list. Raises SettingError for anything else."""
    try:
        return [_checked(row) for row in json.loads(text)]
    except ValueError as error:
        rule = f"cannot be read as JSON: {error}"
        raise SettingError(
            "import.files", path, rule, "a file with an object on each line"
        ) from None


def _checked(row: Any) -> dict[str, Any]:
    """A row that is an object of text. Raises ValueError."""
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a lone surrogate)") from None
    return row
