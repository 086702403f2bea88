"""Readers of other people's logs: each makes one table of what is in a file or a store.

Libraries that read their own formats are imported when they are needed, and asked for in words.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.study import ImportConfig, columns_of
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, USUAL, first_names
from isosweep.importing.shapes import with_metric_columns
from isosweep.importing.stores import (
    foreign_database,
    is_database,
    is_store,
    read_store,
    rows_in_time,
    table_names,
)
from isosweep.importing.text import (
    is_json_rows,
    name_text,
    read_json_rows,
    read_separated,
    with_name_texts,
)
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Lines of a console's log in which its kind has to show.
_LOOKED_AT = 20_000
# verl prints each step as `step:3 - key:value - ...` (verl/utils/logger/aggregate_logger.py), Ray
# with the worker's name before it.
_VERL = re.compile(r"\bstep:(\d+) - (.*)")
# A number as Python, or NumPy since 2.0, prints it.
_DIGITS = r"(-?[\d.]+(?:e[+-]?\d+)?|nan|-?inf)"
_NUMBER = re.compile(rf"{_DIGITS}|np\.\w+\({_DIGITS}\)")
# Files of other kinds that a note names, by reader.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How one kind of log becomes a table.

    `fits`: whether a path, or an address, is one; `read`: the rows of one run, or of a table, from
    all of its files, with notes on what was left out. `needs`: the package that reads it. `run`:
    what a file's run is called by: files with the same one are of one run. `names_runs`: the rows
    have the run's id.
    """

    name: str
    fits: Callable[[str], bool]
    read: Callable[[Sequence[str], ImportConfig, list[Note]], "pandas.DataFrame"]
    needs: str = "pandas"
    run: Callable[[str], str] = str
    names_runs: bool = False


def _ends(*endings: str) -> Callable[[str], bool]:
    return lambda path: path.lower().endswith(endings) and Path(path).is_file()


def _parquet(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    import pandas

    return with_name_texts(pandas.read_parquet(paths[0]), config)


def _trainer_state(
    paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """What transformers' Trainer, and TRL's, has logged: a row for each line of `log_history`.

    Of several states of a run the one with the most steps counts.
    """
    import pandas

    states: list[tuple[float, int, list[dict[str, Any]]]] = []
    broken = []
    for path in paths:
        try:
            state = json.loads(Path(path).read_bytes())
            history = state["log_history"]
            states.append((float(state.get("global_step") or 0), len(history), history))
        except (ValueError, TypeError, KeyError) as error:
            broken.append(path)
            if len(broken) == len(paths):
                said = f"{type(error).__name__}: {error}"
                rule = f"is no state of a trainer that was written whole ({said})"
                raise SettingError(
                    "import.files", path, rule, "the directory without that file"
                ) from None
    if broken:
        notes.append(Note(kind="unreadable", count=len(broken), example=broken[0]))
    return pandas.json_normalize(max(states, key=lambda state: state[:2])[2])


def _run_of_checkpoint(path: str) -> str:
    """The run's directory: above its `checkpoint-N`, if the file lies in one."""
    parent = Path(path).parent
    return str(parent.parent if parent.name.startswith("checkpoint-") else parent)


def _is_verl(path: str) -> bool:
    if not _ends(".log", ".out", ".txt")(path):
        return False
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        return any(map(_VERL.search, islice(lines, _LOOKED_AT)))


def _verl(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
    import pandas

    lines = Path(paths[0]).read_text(encoding="utf-8", errors="replace").split("\n")
    found = [match for line in lines if (match := _VERL.search(line))]
    rows = [[part.rpartition(":") for part in each[2].strip().split(" - ")] for each in found]
    if rows and _VERL.search(lines[-1]):
        # The console ends within this line.
        key, _, value = rows[-1][-1]
        others = [last for row in rows[:-1] for name, _, last in row if name == key]
        # `0.4` or `0.` of `0.4821` is a number, too.
        shortest = min(map(len, others), default=0)
        if not _NUMBER.fullmatch(value.strip()) or len(value) < shortest:
            notes.append(Note(kind="torn", count=1, example=paths[0]))
            del rows[-1], found[-1]
    return pandas.DataFrame(
        [
            {"step": float(each[1])}
            | {
                key.strip(): float(number[1] or number[2])
                for key, _, value in row
                if (number := _NUMBER.fullmatch(value.strip()))
            }
            for each, row in zip(found, rows, strict=True)
        ]
    )


def _events(paths: Sequence[str], config: ImportConfig, notes: list[Note]) -> "pandas.DataFrame":
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


READERS: tuple[Reader, ...] = (
    Reader(name="mlflow", fits=is_store, read=read_store, needs="mlflow", names_runs=True),
    Reader(
        name="trainer_state",
        fits=lambda path: Path(path).name == "trainer_state.json",
        read=_trainer_state,
        run=_run_of_checkpoint,
    ),
    Reader(
        name="tensorboard",
        fits=lambda path: "tfevents" in Path(path).name,
        read=_events,
        needs="tensorboard",
        run=lambda path: str(Path(path).parent),
    ),
    Reader(name="csv", fits=_ends(".csv", ".csv.gz"), read=partial(read_separated, ",")),
    Reader(name="tsv", fits=_ends(".tsv"), read=partial(read_separated, "\t")),
    Reader(
        name="jsonl",
        fits=lambda path: _ends(".jsonl", ".ndjson")(path) or is_json_rows(path),
        read=read_json_rows,
    ),
    Reader(name="parquet", fits=_ends(".parquet"), read=_parquet, needs="pyarrow"),
    Reader(name="verl", fits=_is_verl, read=_verl),
)


def read_sources(
    sources: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The rows of all sources as one table, each with the file or directory of its run; `notes`
    gets what was left out, also where the sources are refused.

    Raises SettingError for a source that is not there, that no reader fits, or that cannot be read.
    """
    import pandas

    found: dict[tuple[str, str], tuple[Reader, str, str, list[str]]] = {}
    read = set() if config.runs is None else {Path(config.runs).resolve()}
    for source in sources:
        reader, runs = _reader_of(source, config, notes)
        _require(reader)
        for run, paths in runs.items():
            # A file that lies in two of the sources is read once.
            places = {each: Path(each).resolve() for each in paths}
            if left := [each for each in paths if places[each] not in read]:
                # Files of one directory that are given one by one are of one run.
                where = str(Path(reader.run(left[0])).resolve())
                place = f"{source} {run}" if reader.names_runs else where
                found.setdefault((reader.name, place), (reader, source, run, []))[-1].extend(left)
            read.update(places.values())
    pieces = []
    for reader, source, run, paths in found.values():
        frame = _read(reader, paths, config, notes)
        if frame.empty:
            notes.append(Note(kind="empty", count=1, example=paths[0]))
        else:
            pieces.append((reader, source, run, frame))
    if not pieces:
        raise SettingError("import.files", ", ".join(sources), "has no rows")
    frames = []
    for reader, source, run, frame in pieces:
        alike = [name for _, _, name, _ in pieces if name == run]
        several = (len(found) > 1 or reader.run is not str) and not reader.names_runs
        if FILE not in frame and (several or len(alike) > 1):
            name = _told_apart(run, source, sources) if len(alike) > 1 else run
            frame = frame.assign(**{FILE: _as_text(name)})
        frames.append(frame)
    whole = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    notes[:] = [replace(note, example=_as_text(note.example)) for note in notes]
    return whole if config.runs is None else _with_runs(whole, config)


def _as_text(name: str) -> str:
    """The name of a file, whose bytes need not be text."""
    return os.fsencode(name).decode(errors="replace")


def _told_apart(run: str, source: str, sources: Sequence[str]) -> str:
    """The name of a run that another source has a run of, too: with that of its source."""
    above = Path(os.path.commonpath([Path(each).absolute() for each in sources]))
    return str(Path(source).absolute().relative_to(above) / run)


def _read(
    reader: Reader, paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    try:
        return with_metric_columns(reader.read(paths, config, notes), config)
    except SettingError:
        raise
    except Exception as error:
        # Whatever a library makes of a file that is none of its own.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        rule = f"cannot be read as {reader.name} ({said})"
        raise SettingError(
            "import.files", paths[0], rule, "import.reader=NAME of another kind"
        ) from None


def _reader_of(
    source: str, config: ImportConfig, notes: list[Note]
) -> tuple[Reader, dict[str, list[str]]]:
    """The reader of a source, and what it reads there, by the run's name: the source itself, or
    files in it."""
    known = {reader.name: reader for reader in READERS}
    if config.reader is not None and config.reader not in known:
        raise SettingError("import.reader", config.reader, f"is none of {', '.join(known)}")
    tried = (known[config.reader],) if config.reader else READERS
    path = Path(source)
    if "://" in source:
        return READERS[0], {source: [source]}
    if not path.exists():
        raise SettingError("import.files", source, "is no file or directory, and no address")
    reader = next((each for each in tried if each.fits(source)), None)
    if reader is None and path.is_file() and config.reader is not None:
        reader = tried[0]
    if reader is not None:
        return reader, {reader.run(source): [source]}
    if is_database(source):
        raise foreign_database(source, table_names(source))
    by_reader = _files_within(path, tried, config)
    if not by_reader:
        has = sorted(_below(str(each), path) for each in path.rglob("*") if each.is_file())
        rule = f"is read by none of {', '.join(reader.name for reader in tried)}"
        rule += f"; it has {first_names(has, _NAMED)}" if has else ""
        raise SettingError(
            "import.files", source, rule, "a CSV file with a row for each evaluation"
        )
    (name, paths), *others = by_reader.items()
    if others:
        listed = "; ".join(
            f"{other}: {first_names([_below(each, path) for each in left], _NAMED)}"
            for other, left in others
        )
        number = sum(len(left) for _, left in others)
        example = f"read as {name}, not {listed}"
        notes.append(Note(kind="other kinds", count=number, example=example))
    runs: dict[str, list[str]] = {}
    for each in paths:
        runs.setdefault(_below(known[name].run(each), path), []).append(each)
    return known[name], runs


def _files_within(
    root: Path, tried: Sequence[Reader], config: ImportConfig
) -> dict[str, list[str]]:
    """Files and directories below `root` by the reader that fits them, in the readers' order."""
    # A link to a file, such as `latest.csv`, comes after the file itself.
    within = sorted(root.rglob("*"), key=lambda each: (each.is_symlink(), str(each)))
    places = [(str(each), each.resolve()) for each in within]
    # The table of the runs may lie among their logs, and is none.
    taken = set() if config.runs is None else {Path(config.runs).resolve()}
    found: dict[str, list[str]] = {}
    for reader in tried:
        for path, place in places:
            # What lies in a store that was taken is part of it.
            if taken.isdisjoint((place, *place.parents)) and reader.fits(path):
                found.setdefault(reader.name, []).append(path)
                taken.add(place)
    return found


def _below(run: str, root: Path) -> str:
    inside = Path(run).is_relative_to(root) and Path(run) != root
    return str(Path(run).relative_to(root)) if inside else run


def _require(reader: Reader) -> None:
    try:
        import_module(reader.needs)
    except ImportError:
        rule = f"is read by the package {reader.needs}, which is not installed here"
        raise SettingError(
            "import.reader", reader.name, rule, f"pip install {reader.needs}"
        ) from None


def _with_runs(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with what `import.runs` has of each run. Raises SettingError where it lacks one."""
    assert config.runs is not None
    more = read_sources([config.runs], ImportConfig(), [])
    own = columns_of(config)["run"] or next((name for name in USUAL["run"] if name in frame), None)
    if "run" not in more or not isinstance(own, str) or own not in frame:
        rule = "has a column run, whose values are the names of the runs"
        raise SettingError(
            "import.runs", config.runs, rule, "import.columns={run:COLUMN} of the logs"
        )
    called = frame[own].map(name_text).astype(str)
    names = set(called)
    lacking = sorted(names - set(more["run"].astype(str)))
    if lacking:
        rule = f"has no row for {len(lacking)} of {len(names)} runs, {lacking[0]} among them"
        raise SettingError("import.runs", config.runs, rule)
    told = more.astype({"run": str}).drop_duplicates()
    for name in told["run"][told["run"].duplicated()][:1]:
        raise SettingError("import.runs", config.runs, f"has two rows of run {name}, which differ")
    told = told.set_index("run")
    return frame.assign(**{str(name): called.map(told[name]) for name in told.columns})
