"""Files of logs as tables: CSV, JSON rows, Parquet, trainer states, consoles, event files.

A last line that was not written whole is left out with a note; a broken line before it is refused
with its number.
"""

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.study import ImportConfig, columns_of, columns_typed
from isosweep.errors import SettingError
from isosweep.importing.columns import first_names, guess_column, is_run_name, name_text
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Letters of one field, such as a list of successes: more than the csv module takes by default.
_LONGEST_FIELD = 1 << 30
# What separates values, in words.
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_AS_UTF8 = "the same file saved as UTF-8"
# Lines of a console's log in which its kind has to show.
_LOOKED_AT = 20_000
# verl prints each step as `step:3 - key:value - ...` (verl/utils/logger/aggregate_logger.py), Ray
# with the worker's name before it.
_VERL = re.compile(r"\bstep:(\d+) - (.*)")
# A number as Python, or NumPy since 2.0, prints it.
_DIGITS = r"(-?[\d.]+(?:e[+-]?\d+)?|nan|-?inf)"
_NUMBER = re.compile(rf"{_DIGITS}|np\.\w+\({_DIGITS}\)")
# What exports call the column of metrics' names (MLflow's page: key; TensorBoard's tools: tag;
# pandas.melt: variable; InfluxDB: _field), and that of their values; letters alone.
_NAMES = (
    *("key", "metric", "metricname", "metrickey", "tag", "field", "variable", "series", "measure"),
    "name",
)
_VALUES = ("value", "metricvalue")
# Columns of W&B's charts that are about a curve, and not its values.
_AROUND = ("__MIN", "__MAX", " - _step", " - Step")
# Metrics that a refusal names.
_LISTED = 6


def _lines(path: str) -> list[str]:
    """Lines of a file in UTF-8 with their ends. Raises SettingError for another encoding."""
    data = Path(path).read_bytes()
    if path.lower().endswith(".gz"):
        data = gzip.decompress(data)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SettingError("import.files", path, "is UTF-16, and logs are read as UTF-8", _AS_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # A last line may be torn in the middle of a character.
        if b"\n" in data[error.start :]:
            number = data.count(b"\n", 0, error.start) + 1
            rule = f"line {number} is not UTF-8"
            raise SettingError("import.files", path, rule, _AS_UTF8) from None
        text = data.decode(errors="replace")
    return list(io.StringIO(text, newline=""))


def read_csv(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """The table of a CSV or TSV file.

    Raises SettingError for another separator, and for a row with more or fewer fields than the
    header.
    """
    import pandas

    path = paths[0]
    lines = _lines(path)
    separator = "\t" if path.lower().endswith(".tsv") else ","
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(lines, delimiter=separator)
    # Each with the number of its last line.
    (header, _), *rows = [(row, reader.line_num) for row in reader if row] or [([], 0)]
    other = next((each for each in _SEPARATORS if len(header) == 1 and each in header[0]), None)
    if other is not None:
        found, wanted = _SEPARATORS[other], _SEPARATORS[separator]
        rule = f"its header is separated by {found}, and values are read between {wanted}"
        python = f"isosweep.from_frame(pandas.read_csv(FILE, sep={other!r}), ...)"
        raise SettingError("import.files", path, rule, f"the same table with {wanted}, or {python}")
    if rows and _is_torn(rows[-1][0], header, [row for row, _ in rows[:-1]], lines[-1]):
        notes.append(Note(kind="torn", count=1, example=path))
        rows.pop()
    for row, line in rows:
        if len(row) != len(header):
            counts = f"{len(row)} and {len(header)}"
            rule = f"line {line} and the header differ in their number of fields ({counts})"
            raise SettingError("import.files", path, rule, "the file without that line")
    frame = pandas.DataFrame([row for row, _ in rows], columns=header)
    for k, name in enumerate(header):
        if not is_run_name(name, config) and header.count(name) == 1:
            frame.isetitem(k, _typed(frame[name]))
    return frame


def _is_torn(last: list[str], header: list[str], before: list[list[str]], line: str) -> bool:
    """Whether a table's last row was not written whole. `0.4` or `0.` of `0.4821` is a number,
    too: without the line's end a value that is shorter than all others may be such a part."""
    shortest = min((len(row[-1].strip()) for row in before), default=0)
    unended = not line.endswith(("\n", "\r"))
    return len(last) < len(header) or (unended and len(last[-1].strip()) < shortest)


def _typed(column: "pandas.Series[Any]") -> "pandas.Series[Any]":
    """Texts as numbers where all are numbers or blank."""
    import pandas

    blank = column.str.strip().str.lower().isin(("", "nan", "null", "none", "na", "n/a"))
    told = column.mask(blank)
    numbers = pandas.to_numeric(told, errors="coerce")
    return told if (numbers.isna() & ~blank).any() else numbers


def read_json(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """The rows of a file with a JSON object on each line, or with one list of objects.

    Raises SettingError for what is no JSON object, with its line.
    """
    import pandas

    path = paths[0]
    lines = _lines(path)
    listed = bool(lines) and lines[0].lstrip().startswith("[")
    texts = {0: "".join(lines)} if listed else {k: x for k, x in enumerate(lines) if x.strip()}
    rows: list[dict[str, Any]] = []
    for number, text in texts.items():
        try:
            rows += map(_object, json.loads(text) if listed else [json.loads(text)])
        except ValueError as error:
            # A list or a number is no part of an object: only a part of one was torn.
            if number == max(texts) and text.lstrip().startswith("{"):
                notes.append(Note(kind="torn", count=1, example=path))
                break
            what, nearest = f"line {number + 1} ", "the file without that line"
            if listed:
                what, nearest = "", "a file with an object on each line"
            rule = f"{what}cannot be read as JSON: {error}"
            raise SettingError("import.files", path, rule, nearest) from None
    return _with_name_texts(pandas.json_normalize(rows), config)


def _object(row: Any) -> dict[str, Any]:
    """Raises ValueError for a row that is no object of text."""
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a lone surrogate)") from None
    return row


def is_json_rows(path: str) -> bool:
    """Whether a `.json` file is a list of objects, or has an object on each of several lines, as
    Ray's `result.json` has."""
    if not (path.lower().endswith(".json") and Path(path).is_file()):
        return False
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        start = file.read(1 << 16).lstrip()
    if start.startswith("["):
        return start[1:].lstrip().startswith("{")
    first, _, second = start.partition("\n")
    try:
        return isinstance(json.loads(first), dict) and second.lstrip().startswith("{")
    except ValueError:
        return False


def read_parquet(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The table of a Parquet file."""
    import pandas

    return _with_name_texts(pandas.read_parquet(paths[0]), config)


def _with_name_texts(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    names = [name for name in frame.columns if is_run_name(str(name), config)]
    return frame.assign(**{name: frame[name].map(name_text) for name in names})


def read_trainer_state(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """What transformers' Trainer, and TRL's, has logged: a row for each line of `log_history`.

    Of several states of a run the one with the most steps counts.
    """
    import pandas

    states, broken = [], []
    for path in paths:
        try:
            state = json.loads(Path(path).read_bytes())
            history = pandas.json_normalize(state["log_history"])
            states.append((float(state.get("global_step") or 0), len(history), history))
        except (ValueError, TypeError, KeyError) as error:
            broken.append(path)
            if len(broken) == len(paths):
                rule = "is no state of a trainer that was written whole"
                rule += f" ({type(error).__name__}: {error})"
                nearest = "the directory without that file"
                raise SettingError("import.files", path, rule, nearest) from None
    if broken:
        notes.append(Note(kind="unreadable", count=len(broken), example=broken[0]))
    return max(states, key=lambda state: state[:2])[2]


def is_verl(path: str) -> bool:
    """Whether a text file has lines of verl's console."""
    if not (path.lower().endswith((".log", ".out", ".txt")) and Path(path).is_file()):
        return False
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        return any(map(_VERL.search, islice(lines, _LOOKED_AT)))


def read_verl(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """verl's console: a row for each line of a step."""
    import pandas

    lines = Path(paths[0]).read_text(encoding="utf-8", errors="replace").split("\n")
    found = [match for line in lines if (match := _VERL.search(line))]
    rows = [
        {"step": each[1]}
        | {key.strip(): value.strip() for key, _, value in map(_parted, each[2].split(" - "))}
        for each in found
    ]
    if rows and _VERL.search(lines[-1]):
        # The console ends within this line.
        key, value = list(rows[-1].items())[-1]
        shortest = min((len(row[key]) for row in rows[:-1] if key in row), default=0)
        if not _NUMBER.fullmatch(value) or len(value) < shortest:
            notes.append(Note(kind="torn", count=1, example=paths[0]))
            rows.pop()
    return pandas.DataFrame(
        [
            {
                key: float(number[1] or number[2])
                for key, value in row.items()
                if (number := _NUMBER.fullmatch(value))
            }
            for row in rows
        ]
    )


def _parted(text: str) -> tuple[str, str, str]:
    return text.strip().rpartition(":")


def read_events(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """Scalars of TensorBoard's event files of one run: a row for each step."""
    import pandas
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    points: list[tuple[float, int, str, float]] = []
    for path in sorted(paths):
        events = EventAccumulator(path, size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            points += [(each.wall_time, each.step, tag, each.value) for each in events.Scalars(tag)]
        for tag in events.Tags()["tensors"]:
            for event in events.Tensors(tag):
                value = tensor_util.make_ndarray(event.tensor_proto)
                if value.ndim == 0 and value.dtype.kind == "f":
                    points.append((event.wall_time, event.step, tag, float(value)))
    return pandas.DataFrame(rows_in_time(points))


def rows_in_time(points: Iterable[tuple[float, int, str, float]]) -> list[dict[str, Any]]:
    """A row for each step, by the time of its first value; another one where a value of that step
    is logged again. `points`: (time, step, name, value)."""
    rows: list[dict[str, Any]] = []
    newest: dict[int, dict[str, Any]] = {}
    for _, step, name, value in sorted(points, key=lambda point: point[:2]):
        row = newest.get(step)
        if row is None or name in row:
            row = newest[step] = {"step": step}
            rows.append(row)
        row[name] = value
    return rows


def with_metric_columns(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with a column for each metric, its rows in their order: of W&B's exported charts,
    and of long tables of names and values.

    Raises SettingError where the column of all values is to be read as one quantity.
    """
    from pandas.api.types import is_numeric_dtype

    names = [str(name) for name in frame.columns]
    if len(names) > 1 and all(" - " in name for name in names[1:]):
        return _of_chart(frame)
    by_letters = {re.sub("[^a-z]", "", name.lower()): name for name in names}
    given = {name: column for name, column in columns_of(config).items() if column in names}
    key = next((by_letters[each] for each in _NAMES if each in by_letters), None)
    value = next((by_letters[each] for each in _VALUES if each in by_letters), None)
    if key is None or value is None or key in given.values() or is_numeric_dtype(frame[key]):
        return frame
    metrics = [str(name) for name in frame[key].dropna().unique() if name not in names]
    for quantity in (name for name, column in given.items() if column == value):
        if len(metrics) == 1:
            return frame
        listed = first_names(metrics, _LISTED)
        rule = f"the column {key} says which metric each value is: {listed}"
        likely = guess_column(quantity, metrics) or metrics[0]
        nearest = columns_typed(quantity, likely)
        raise SettingError(f"import.columns.{quantity}", value, rule, nearest)
    columns = {name: frame[value].where(frame[key] == name) for name in metrics}
    return frame.drop(columns=[key, value]).assign(**columns)


def _of_chart(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Of an export of W&B's charts, with a column `run - metric` for each curve, a row for each run
    and value of the axis, which keeps its name: it may be a time."""
    import pandas

    axis = str(frame.columns[0])
    by_run: dict[str, dict[str, Any]] = {}
    for name in map(str, frame.columns[1:]):
        if not name.endswith(_AROUND):
            run, _, metric = name.rpartition(" - ")
            by_run.setdefault(run, {})[metric] = frame[name]
    parts = [
        pandas.DataFrame({"run": run, axis: frame[axis], **metrics}).dropna(
            how="all", subset=list(metrics)
        )
        for run, metrics in by_run.items()
    ]
    return pandas.concat(parts, ignore_index=True)
