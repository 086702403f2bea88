"""Which reader makes a table of which logs, and the table of all sources together.

Libraries that read their own formats are imported when they are needed.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.config.study import ImportConfig, columns_of
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, USUAL, first_names, name_text
from isosweep.importing.stores import is_database, is_store, read_store, refuse_database
from isosweep.importing.tables import (
    is_json_rows,
    is_verl,
    read_csv,
    read_events,
    read_json,
    read_parquet,
    read_trainer_state,
    read_verl,
    with_metric_columns,
)
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

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


def _run_of_checkpoint(path: str) -> str:
    """The run's directory: above its `checkpoint-N`, if the file lies in one."""
    parent = Path(path).parent
    return str(parent.parent if parent.name.startswith("checkpoint-") else parent)


READERS: tuple[Reader, ...] = (
    Reader(name="mlflow", fits=is_store, read=read_store, needs="mlflow", names_runs=True),
    Reader(
        name="trainer_state",
        fits=lambda path: Path(path).name == "trainer_state.json",
        read=read_trainer_state,
        run=_run_of_checkpoint,
    ),
    Reader(
        name="tensorboard",
        fits=lambda path: "tfevents" in Path(path).name,
        read=read_events,
        needs="tensorboard",
        run=lambda path: str(Path(path).parent),
    ),
    Reader(name="csv", fits=_ends(".csv", ".csv.gz"), read=read_csv),
    Reader(name="tsv", fits=_ends(".tsv"), read=read_csv),
    Reader(
        name="jsonl",
        fits=lambda path: _ends(".jsonl", ".ndjson")(path) or is_json_rows(path),
        read=read_json,
    ),
    Reader(name="parquet", fits=_ends(".parquet"), read=read_parquet, needs="pyarrow"),
    Reader(name="verl", fits=is_verl, read=read_verl),
)
_BY_NAME = {reader.name: reader for reader in READERS}


def read_sources(
    sources: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """The rows of all sources as one table, each with the file or directory of its run; `notes`
    gets what was left out, also where the sources are refused.

    Raises SettingError for a source that is not there, that no reader fits, or that cannot be read.
    """
    import pandas

    # By reader and place of the run: files of one directory that are given one by one are of one.
    found: dict[tuple[str, str], tuple[Reader, str, str, list[str]]] = {}
    # The table of the runs may lie among their logs, and is none.
    taken = set() if config.runs is None else {Path(config.runs).resolve()}
    for source in sources:
        reader, runs = _reader_of(source, config, notes)
        _require_package(reader)
        for run, paths in runs.items():
            # A file that lies in two of the sources is read once.
            places = {each: Path(each).resolve() for each in paths}
            if left := [each for each in paths if places[each] not in taken]:
                place = str(Path(reader.run(left[0])).resolve())
                key = reader.name, f"{source} {run}" if reader.names_runs else place
                found.setdefault(key, (reader, source, run, []))[-1].extend(left)
            taken.update(places.values())
    pieces, empty = [], []
    for reader, source, run, paths in found.values():
        full = [path for path in paths if not Path(path).is_file() or Path(path).stat().st_size]
        frame = _read(reader, full, config, notes) if full else pandas.DataFrame()
        empty += [path for path in paths if frame.empty or path not in full]
        if not frame.empty:
            pieces.append((reader, source, run, frame))
    if empty:
        notes.append(Note(kind="empty", count=len(empty), example=empty[0]))
    if not pieces:
        raise SettingError("import.files", ", ".join(sources), "has no rows")
    frames = []
    for reader, source, run, frame in pieces:
        alike = [name for _, _, name, _ in pieces if name == run]
        several = (len(found) > 1 or reader.run is not str) and not reader.names_runs
        if FILE not in frame and (several or len(alike) > 1):
            # The name of a run that another source has a run of, too, begins with its source.
            above = Path(os.path.commonpath([Path(each).absolute() for each in sources]))
            whole = Path(source).absolute().relative_to(above) / run if len(alike) > 1 else run
            frame = frame.assign(**{FILE: _as_text(str(whole))})
        frames.append(frame)
    table = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    notes[:] = [replace(note, example=_as_text(note.example)) for note in notes]
    return table if config.runs is None else _with_runs(table, config)


def _as_text(name: str) -> str:
    """The name of a file, whose bytes need not be text."""
    return os.fsencode(name).decode(errors="replace")


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
        nearest = "import.reader=NAME of another kind"
        raise SettingError("import.files", paths[0], rule, nearest) from None


def _reader_of(
    source: str, config: ImportConfig, notes: list[Note]
) -> tuple[Reader, dict[str, list[str]]]:
    """The reader of a source, and what it reads there, by the run's name: the source itself, or
    files in it."""
    if config.reader is not None and config.reader not in _BY_NAME:
        raise SettingError("import.reader", config.reader, f"is none of {', '.join(_BY_NAME)}")
    tried = (_BY_NAME[config.reader],) if config.reader else READERS
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
        refuse_database(source)
    by_reader = _files_within(path, config)
    if not by_reader or (config.reader or next(iter(by_reader))) not in by_reader:
        has = sorted(_below(str(each), path) for each in path.rglob("*") if each.is_file())
        rule = f"is read by none of {', '.join(reader.name for reader in tried)}"
        rule += f"; it has {first_names(has, _NAMED)}" if has else ""
        nearest = "a CSV file with a row for each evaluation"
        raise SettingError("import.files", source, rule, nearest)
    chosen = config.reader or next(iter(by_reader))
    paths = by_reader.pop(chosen)
    if by_reader:
        listed = "; ".join(
            f"{other}: {first_names([_below(each, path) for each in left], _NAMED)}"
            for other, left in by_reader.items()
        )
        number = sum(map(len, by_reader.values()))
        example = f"read as {chosen}, not {listed}"
        notes.append(Note(kind="other kinds", count=number, example=example))
    runs: dict[str, list[str]] = {}
    for each in paths:
        runs.setdefault(_below(_BY_NAME[chosen].run(each), path), []).append(each)
    return _BY_NAME[chosen], runs


def _files_within(root: Path, config: ImportConfig) -> dict[str, list[str]]:
    """Files and directories below `root` by the reader that fits them, in the readers' order."""
    # A link to a file, such as `latest.csv`, comes after the file itself.
    within = sorted(root.rglob("*"), key=lambda each: (each.is_symlink(), str(each)))
    places = [(str(each), each.resolve()) for each in within]
    taken = set() if config.runs is None else {Path(config.runs).resolve()}
    found: dict[str, list[str]] = {}
    for reader in READERS:
        for path, place in places:
            # What lies in a store that was taken is part of it.
            if taken.isdisjoint((place, *place.parents)) and reader.fits(path):
                found.setdefault(reader.name, []).append(path)
                taken.add(place)
    return found


def _below(run: str, root: Path) -> str:
    inside = Path(run).is_relative_to(root) and Path(run) != root
    return str(Path(run).relative_to(root)) if inside else run


def _require_package(reader: Reader) -> None:
    try:
        import_module(reader.needs)
    except ImportError:
        rule = f"is read by the package {reader.needs}, which is not installed here"
        nearest = f"pip install {reader.needs}"
        raise SettingError("import.reader", reader.name, rule, nearest) from None


def _with_runs(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with what `import.runs` has of each run. Raises SettingError where it lacks one."""
    assert config.runs is not None
    more = read_sources([config.runs], ImportConfig(), [])
    own = columns_of(config)["run"] or next((name for name in USUAL["run"] if name in frame), None)
    if "run" not in more or not isinstance(own, str) or own not in frame:
        rule = "has a column run, whose values are the names of the runs"
        nearest = "import.columns={run:COLUMN} of the logs"
        raise SettingError("import.runs", config.runs, rule, nearest)
    called = frame[own].map(name_text).astype(str)
    told = more.astype({"run": str}).drop_duplicates().set_index("run")
    if lacking := sorted({*called} - {*told.index}):
        rule = f"has no row for {len(lacking)} of {called.nunique()} runs, {lacking[0]} among them"
        raise SettingError("import.runs", config.runs, rule)
    for name in told.index[told.index.duplicated()][:1]:
        raise SettingError("import.runs", config.runs, f"has two rows of run {name}, which differ")
    return frame.assign(**{str(name): called.map(told[name]) for name in told.columns})
