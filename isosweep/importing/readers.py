"""Readers of other people's logs: each makes one table of what is in a file or directory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.config.importing import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How one kind of log becomes a table.

    `fits`: whether a path is one; `read`: its rows. `needs`: the package that reads it, and what
    installs that.
    """

    name: str
    fits: Callable[[str], bool]
    read: Callable[[str, ImportConfig], "pandas.DataFrame"]
    needs: str = "pandas"


def _ends(*endings: str) -> Callable[[str], bool]:
    return lambda path: path.lower().endswith(endings) and Path(path).is_file()


def _csv(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return _long(
        pandas.read_csv(path, sep=None if path.endswith(".txt") else ",", low_memory=False)
    )


def _tsv(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return pandas.read_csv(path, sep="\t", low_memory=False)


def _json_lines(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    with Path(path).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return pandas.json_normalize(rows)


def _parquet(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return pandas.read_parquet(path)


def _long(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """A table of W&B's charts, with a column `run - metric` for each, as one row a run and step."""
    return frame


READERS: tuple[Reader, ...] = (
    Reader(name="csv", fits=_ends(".csv", ".csv.gz"), read=_csv),
    Reader(name="tsv", fits=_ends(".tsv"), read=_tsv),
    Reader(name="jsonl", fits=_ends(".jsonl", ".ndjson"), read=_json_lines),
    Reader(name="parquet", fits=_ends(".parquet"), read=_parquet, needs="pyarrow"),
)


def read_sources(sources: list[str], config: ImportConfig) -> "pandas.DataFrame":
    """The rows of all sources as one table, with the file of each.

    Raises SettingError for a source that is not there, that no reader fits, or that cannot be read.
    """
    import pandas

    frames = []
    for source in sources:
        reader, paths = _reader_of(source, config)
        for path in paths:
            _require(reader)
            try:
                frame = reader.read(path, config)
            except (ValueError, KeyError, OSError) as error:
                said = " ".join(str(error).split())[:200]
                raise SettingError(
                    "from", path, f"cannot be read as {reader.name} ({said})"
                ) from None
            if FILE not in frame and len(paths) > 1:
                root = Path(source)
                frame[FILE] = str(Path(path).relative_to(root) if root.is_dir() else path)
            frames.append(frame)
    whole = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    if whole.empty:
        raise SettingError("from", ", ".join(sources), "has no rows")
    return _with_runs(whole, config)


def _reader_of(source: str, config: ImportConfig) -> tuple[Reader, list[str]]:
    """The reader of a source, and the paths that it reads there: the source, or files in it."""
    known = {reader.name: reader for reader in READERS}
    if config.reader is not None and config.reader not in known:
        rule = f"is none of {', '.join(known)}"
        raise SettingError("import.reader", config.reader, rule)
    tried = [known[config.reader]] if config.reader else READERS
    if "://" not in source and not Path(source).exists():
        raise SettingError("from", source, "is no file or directory, and no address")
    for reader in tried:
        if reader.fits(source):
            return reader, [source]
    if Path(source).is_dir():
        within = sorted(str(path) for path in Path(source).rglob("*"))
        for reader in tried:
            if found := [path for path in within if reader.fits(path)]:
                return reader, found
    if config.reader is not None and Path(source).is_file():
        return tried[0], [source]
    rule = f"is read by none of {', '.join(reader.name for reader in tried)}"
    raise SettingError("from", source, rule, "import.reader=NAME, or a CSV file")


def _require(reader: Reader) -> None:
    try:
        import_module(reader.needs)
    except ImportError:
        rule = f"is read by the package {reader.needs}, which is not here"
        raise SettingError("from", reader.name, rule, f"pip install {reader.needs}") from None


def _with_runs(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with what `import.runs` has of every run."""
    return frame
