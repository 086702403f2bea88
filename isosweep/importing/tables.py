"""Files of logs as tables: CSV, JSON rows, trainer states, verl's console, event files.

A last line that was not written whole is left out with a note; a broken line before it is refused
with its number.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.study import ImportConfig, columns_of
from isosweep.errors import SettingError
from isosweep.importing.columns import is_run_name
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# What may separate the values of a table.
_SEPARATORS = ",\t;|"
# verl prints each step as `step:3 - key:value - ...` (verl/utils/logger/aggregate_logger.py), Ray
# with the worker's name before it.
_VERL = re.compile(r"\bstep:(\d+) - (.*)")
# A number as Python, or NumPy since 2.0, prints it.
_NUMBER = re.compile(r"(?:np\.\w+\()?(-?[\d.]+(?:e[+-]?\d+)?|nan|-?inf)\)?")
# Letters of a file in which its kind has to show.
_LOOKED_AT = 1 << 20
# A list of objects, or an object on each of several lines, as Ray's result.json has.
_JSON_ROWS = re.compile(r"\s*\[\s*\{|\s*\{.*\}\s*\n\s*\{")
# What exports call the column of metrics' names (MLflow's page: key; TensorBoard's tools: tag;
# pandas.melt: variable; InfluxDB: _field), and that of their values; letters alone.
_NAMES = (
    *("key", "metric", "metricname", "metrickey", "tag", "field", "variable", "series", "measure"),
    "name",
)
_VALUES = ("value", "metricvalue")
# Columns of W&B's charts that are about a curve, and not its values.
_AROUND = ("__MIN", "__MAX", " - _step", " - Step")


def _text(path: str) -> str:
    """A file's text. Raises SettingError for another encoding than UTF-8."""
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        nearest = "the same file saved as UTF-8"
        raise SettingError("import.files", path, f"line {line} is not UTF-8", nearest) from None


def _start(path: str) -> str:
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return file.read(_LOOKED_AT)


def _is_cut(value: str, others: Iterable[str]) -> bool:
    """Whether the last value of a line without an end may be a part, as `0.4` is of `0.4821`."""
    return len(value.strip()) < min((len(each.strip()) for each in others), default=0)


def _torn(path: str) -> Note:
    return Note(kind="torn", count=1, example=path)


def read_csv(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """The table of a CSV or TSV file; what separates values shows in its first line.

    Raises SettingError for a row with more or fewer fields than the first.
    """
    import pandas

    text = _text(paths[0])
    separator = max(_SEPARATORS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    (_, header), *rows = [(reader.line_num, row) for row in reader if row] or [(0, [])]
    if rows and not text.endswith(("\n", "\r")):
        last = rows[-1][1]
        if len(last) < len(header) or _is_cut(last[-1], (row[-1] for _, row in rows[:-1])):
            notes.append(_torn(paths[0]))
            rows.pop()
    for line, row in rows:
        if len(row) != len(header):
            rule = f"line {line} has {len(row)} fields, and the first line {len(header)}"
            raise SettingError("import.files", paths[0], rule, "the file without that line")
    frame = pandas.DataFrame([row for _, row in rows], columns=header)
    texts = [name for name in header if is_run_name(name, config)]
    return frame.apply(lambda column: column if column.name in texts else _typed(column))


def _typed(column: "pandas.Series[Any]") -> "pandas.Series[Any]":
    """Texts as numbers where all are numbers or blank."""
    import pandas

    blank = column.str.strip().str.lower().isin(("", "nan", "null", "none", "na", "n/a"))
    told = column.mask(blank)
    numbers = pandas.to_numeric(told, errors="coerce")
    return told if (numbers.isna() & ~blank).any() else numbers


def read_json(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """The rows of a file with a JSON object on each line, or with one list of objects.

    Raises SettingError for what is no JSON, with its line.
    """
    import pandas

    text = _text(paths[0])
    listed = text.lstrip().startswith("[")
    lines = [text] if listed else text.split("\n")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                rows += json.loads(line) if listed else [json.loads(line)]
        except ValueError as error:
            if number == len(lines) and not listed:
                notes.append(_torn(paths[0]))
                break
            what = "" if listed else f"line {number} "
            rule = f"{what}cannot be read as JSON: {error}"
            raise SettingError("import.files", paths[0], rule, "the file without it") from None
    return pandas.json_normalize(rows)


def is_json_rows(path: str) -> bool:
    """Whether a `.json` file has several objects."""
    return path.lower().endswith(".json") and bool(_JSON_ROWS.match(_start(path)))


def read_parquet(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The table of a Parquet file."""
    import pandas

    return pandas.read_parquet(paths[0])


def read_trainer_state(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """What transformers' Trainer, and TRL's, has logged: a row for each line of `log_history`.

    Of several states of a run the one with the most steps counts. Raises ValueError where none was
    written whole.
    """
    import pandas

    states, broken = [], []
    for path in paths:
        try:
            state = json.loads(Path(path).read_bytes())
            states.append((state.get("global_step") or 0, len(state["log_history"]), state))
        except (ValueError, KeyError):
            broken.append(path)
    if not states:
        raise ValueError("no state of a trainer that was written whole")
    if broken:
        notes.append(Note(kind="unreadable", count=len(broken), example=broken[0]))
    return pandas.json_normalize(max(states, key=lambda each: each[:2])[2]["log_history"])


def is_verl(path: str) -> bool:
    """Whether a text file has lines of verl's console."""
    return path.lower().endswith((".log", ".out", ".txt")) and bool(_VERL.search(_start(path)))


def read_verl(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    """verl's console: a row for each line of a step."""
    import pandas

    text = Path(paths[0]).read_text(encoding="utf-8", errors="replace")
    rows = [
        {"step": step} | dict(part.strip().rpartition(":")[::2] for part in told.split(" - "))
        for step, told in _VERL.findall(text)
    ]
    if rows and _VERL.search(text.rpartition("\n")[2]):
        key, value = list(rows[-1].items())[-1]
        if not _NUMBER.fullmatch(value) or _is_cut(value, (r[key] for r in rows[:-1] if key in r)):
            notes.append(_torn(paths[0]))
            rows.pop()
    numbers = [
        {key: float(match[1]) for key, value in row.items() if (match := _NUMBER.fullmatch(value))}
        for row in rows
    ]
    return pandas.DataFrame(numbers)


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
    """The table with a column for each metric: of W&B's exported charts, with a column
    `run - metric` for each curve, and of long tables of names and values."""
    from pandas.api.types import is_numeric_dtype

    names = [str(name) for name in frame.columns]
    if len(names) > 1 and all(" - " in name for name in names[1:]):
        # Its axis keeps its name: it may be a time.
        curves = frame[[name for name in names if not name.endswith(_AROUND)]]
        long = curves.melt(names[0]).dropna(subset="value")
        long[["run", "metric"]] = long["variable"].str.rpartition(" - ")[[0, 2]]
        keys = ["run", names[0]]
        return long.pivot_table("value", keys, "metric", aggfunc="last").reset_index()
    by_letters = {re.sub("[^a-z]", "", name.lower()): name for name in names}
    key = next((by_letters[each] for each in _NAMES if each in by_letters), None)
    value = next((by_letters[each] for each in _VALUES if each in by_letters), None)
    taken = columns_of(config).values()
    if key is None or value is None or key in taken or is_numeric_dtype(frame[key]):
        return frame
    metrics = [str(name) for name in frame[key].dropna().unique() if name not in names]
    columns = {name: frame[value].where(frame[key] == name) for name in metrics}
    return frame.drop(columns=[key, value]).assign(**columns)
