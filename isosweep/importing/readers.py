"""Which reader makes a table of which logs, and the table of all sources together.

Libraries that read their own formats are imported when they are needed.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.config.study import ImportConfig, columns_of
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, USUAL, first_names, name_text
from isosweep.importing.stores import is_database, is_store, read_store
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

    `fits`: whether a path is one; `read`: the rows of one run, or of a table, from all of its
    files, with notes on what was left out; `run`: the directory that a file's run is called by,
    None where each file is one of its own.
    """

    name: str
    fits: Callable[[str], bool]
    read: Callable[[Sequence[str], ImportConfig, list[Note]], "pandas.DataFrame"]
    run: Callable[[str], str] | None = None


def _ends(*endings: str) -> Callable[[str], bool]:
    return lambda path: path.lower().endswith(endings)


def _run_of_checkpoint(path: str) -> str:
    """The run's directory: above its `checkpoint-N`, if the file lies in one."""
    parent = Path(path).parent
    return str(parent.parent if parent.name.startswith("checkpoint-") else parent)


_MLFLOW = Reader(name="mlflow", fits=is_store, read=read_store)
READERS: tuple[Reader, ...] = (
    _MLFLOW,
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
        run=os.path.dirname,
    ),
    Reader(name="csv", fits=_ends(".csv", ".tsv"), read=read_csv),
    Reader(
        name="jsonl",
        fits=lambda path: _ends(".jsonl", ".ndjson")(path) or is_json_rows(path),
        read=read_json,
    ),
    Reader(name="parquet", fits=_ends(".parquet"), read=read_parquet),
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

    # The table of the runs may lie among their logs, and is none.
    taken = set() if config.runs is None else {Path(config.runs).resolve()}
    # Files by reader and place of the run: of one run, also if they are given one by one.
    found: dict[tuple[Reader, Path], list[str]] = {}
    names: dict[tuple[Reader, Path], str] = {}
    for source in sources:
        reader, paths = _reader_of(source, config, taken, notes)
        for path in paths:
            run = path if reader.run is None else reader.run(path)
            key = reader, Path(run).resolve()
            found.setdefault(key, []).append(path)
            names.setdefault(key, _below(run, source))
    frames: dict[tuple[Reader, Path], pandas.DataFrame] = {}
    empty = []
    for key, paths in found.items():
        full = [each for each in paths if not Path(each).is_file() or Path(each).stat().st_size]
        frame = _read(key[0], full, config, notes) if full else pandas.DataFrame()
        empty += [path for path in paths if frame.empty or path not in full]
        if not frame.empty:
            frames[key] = frame
    if empty:
        notes.append(Note(kind="empty", count=len(empty), example=empty[0]))
    if not frames:
        raise SettingError("import.files", ", ".join(sources), "has no rows")
    several = Counter(names.values())
    above = os.path.commonpath([Path(each).resolve() for each in sources])
    for key, frame in frames.items():
        reader, place = key
        if reader is not _MLFLOW and FILE not in frame and (reader.run or len(found) > 1):
            # The name of a run that another source has a run of, too, begins with its source.
            alike = several[names[key]] > 1
            frames[key] = frame.assign(
                **{FILE: os.path.relpath(place, above) if alike else names[key]}
            )
    table = pandas.concat(frames.values(), ignore_index=True)
    return table if config.runs is None else _with_runs(table, config)


def _read(
    reader: Reader, paths: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    try:
        return with_metric_columns(reader.read(paths, config, notes), config)
    except SettingError:
        raise
    except Exception as error:
        # Whatever a library makes of a file that is none of its own, or a package that lacks.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        rule, nearest = (
            f"cannot be read as {reader.name} ({said})",
            "import.reader=NAME of another kind",
        )
        if isinstance(error, ImportError):
            nearest = 'pip install "isosweep[logs]"'
        raise SettingError("import.files", paths[0], rule, nearest) from None


def _reader_of(
    source: str, config: ImportConfig, taken: set[Path], notes: list[Note]
) -> tuple[Reader, list[str]]:
    """The reader of a source, and which files or directories it reads there: those that are not
    `taken` yet, and are from now on."""
    if config.reader is not None and config.reader not in _BY_NAME:
        raise SettingError("import.reader", config.reader, f"is none of {', '.join(_BY_NAME)}")
    path = Path(source)
    if "://" in source:
        return _MLFLOW, [source]
    if not path.exists():
        raise SettingError("import.files", source, "is no file or directory, and no address")
    # A link to a file, such as `latest.csv`, comes after the file itself.
    within = sorted(path.rglob("*"), key=lambda each: (each.is_symlink(), str(each)))
    free = [each for each in (path, *within) if taken.isdisjoint(_place(each))]
    by_reader: dict[str, list[str]] = {}
    for each in free:
        # What lies in a store that was taken is part of it.
        if taken.isdisjoint(_place(each)) and (reader := _fitting(each, path, config)) is not None:
            by_reader.setdefault(reader.name, []).append(str(each))
            taken.add(each.resolve())
    if len(free) <= len(within) and not by_reader:
        return _MLFLOW, []
    chosen = config.reader or next((name for name in _BY_NAME if name in by_reader), "")
    paths = by_reader.pop(chosen, [])
    if not paths:
        has = [_below(str(each), source) for each in within if each.is_file()]
        rule = f"is read by none of {config.reader or ', '.join(_BY_NAME)}"
        rule += f"; it has {first_names(has, _NAMED)}" if has else ""
        nearest = "a CSV file with a row for each evaluation"
        raise SettingError("import.files", source, rule, nearest)
    if by_reader:
        listed = "; ".join(
            f"{name}: {first_names([_below(each, source) for each in of], _NAMED)}"
            for name, of in by_reader.items()
        )
        number = sum(map(len, by_reader.values()))
        example = f"read as {chosen}, not {listed}"
        notes.append(Note(kind="other kinds", count=number, example=example))
    return _BY_NAME[chosen], paths


def _place(path: Path) -> tuple[Path, ...]:
    """Where it lies, and the directories above."""
    place = path.resolve()
    return place, *place.parents


def _fitting(path: Path, source: Path, config: ImportConfig) -> Reader | None:
    """The reader that fits a path; of a file that the user names, the one that is asked for."""
    if path == source and path.is_file() and (config.reader or is_database(str(path))):
        return _BY_NAME[config.reader or _MLFLOW.name]
    own = READERS if path.is_file() else (_MLFLOW,)
    return next((reader for reader in own if reader.fits(str(path))), None)


def _below(run: str, root: str) -> str:
    """A run's name: its path below the source, if it lies there."""
    inside = Path(run).is_relative_to(root) and Path(run) != Path(root)
    return str(Path(run).relative_to(root)) if inside else run


def _with_runs(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with what `import.runs` has of each run. Raises SettingError where it lacks one."""
    assert config.runs is not None
    more = read_sources([config.runs], ImportConfig(), [])
    own = columns_of(config)["run"] or next((name for name in USUAL["run"] if name in frame), None)
    if "run" not in more or own not in frame:
        rule = "has a column run, whose values are the names of the runs"
        nearest = "import.columns={run:COLUMN} of the logs"
        raise SettingError("import.runs", config.runs, rule, nearest)
    called = frame[own].map(name_text).astype(str)
    told = more.assign(run=more["run"].map(name_text)).drop_duplicates().set_index("run")
    if lacking := sorted({*called} - {*told.index}):
        rule = f"has no row for {len(lacking)} of {called.nunique()} runs, {lacking[0]} among them"
        raise SettingError("import.runs", config.runs, rule)
    for name in told.index[told.index.duplicated()][:1]:
        raise SettingError("import.runs", config.runs, f"has two rows of run {name}, which differ")
    return frame.assign(**{str(name): called.map(told[name]) for name in told.columns})
