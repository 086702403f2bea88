"""Readers of other people's logs: each makes one table of what is in a file or a store.

Libraries that read their own formats are imported when they are needed, and asked for in words.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.importing import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, USUAL

if TYPE_CHECKING:
    import pandas

# Lines of a console's log in which its kind has to show.
_LOOKED_AT = 20_000
# verl prints each step as `step:3 - key:value - ...` (verl/utils/logger/aggregate_logger.py), Ray
# with the worker's name before it.
_VERL = re.compile(r"\bstep:(\d+) - (.*)")
# A number as Python, or NumPy since 2.0, prints it.
_NUMBER = re.compile(r"(?:np\.\w+\()?(-?[\d.]+(?:e[+-]?\d+)?|nan|inf|-inf)\)?")
# LevelDB's log: bytes of a block and of a header, and what a part is of a record.
_BLOCK, _HEADER = 1 << 15, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Columns of W&B's charts that are about a curve, and not its values.
_AROUND = ("__MIN", "__MAX", " - _step", " - Step")


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How one kind of log becomes a table.

    `fits`: whether a path, or an address, is one; `read`: its rows. `needs`: the package that reads
    it. `run`: the file or directory that a run is called by; of several files of one run the last
    one is read (by length of the path, then by name).
    """

    name: str
    fits: Callable[[str], bool]
    read: Callable[[str, ImportConfig], "pandas.DataFrame"]
    needs: str = "pandas"
    run: Callable[[str], str] = str


def _ends(*endings: str) -> Callable[[str], bool]:
    return lambda path: path.lower().endswith(endings) and Path(path).is_file()


def _csv(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return _long(pandas.read_csv(path, low_memory=False))


def _long(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Of an export of W&B's charts, with a column `run - metric` for each curve, a row for each run
    and step; any other table as it is."""
    import pandas

    curves = [str(name) for name in frame.columns if " - " in str(name)]
    if not curves:
        return frame
    step = str(frame.columns[0])
    by_run: dict[str, dict[str, Any]] = {}
    for name in curves:
        if not name.endswith(_AROUND):
            run, _, metric = name.rpartition(" - ")
            by_run.setdefault(run, {})[metric] = frame[name]
    parts = [
        pandas.DataFrame({"run": run, "step": frame[step], **metrics}).dropna(
            how="all", subset=list(metrics)
        )
        for run, metrics in by_run.items()
    ]
    return pandas.concat(parts, ignore_index=True)


def _tsv(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return pandas.read_csv(path, sep="\t", low_memory=False)


def _json_lines(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    with Path(path).open(encoding="utf-8") as lines:
        return pandas.json_normalize([json.loads(line) for line in lines if line.strip()])


def _parquet(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    return pandas.read_parquet(path)


def _trainer_state(path: str, config: ImportConfig) -> "pandas.DataFrame":
    """What transformers' Trainer, and TRL's, has logged: a row for each line of `log_history`."""
    import pandas

    history = json.loads(Path(path).read_text(encoding="utf-8"))["log_history"]
    return pandas.json_normalize(history)


def _run_of_checkpoint(path: str) -> str:
    """The run's directory: above its `checkpoint-N`, if the file lies in one."""
    parent = Path(path).parent
    return str(parent.parent if parent.name.startswith("checkpoint-") else parent)


def _is_verl(path: str) -> bool:
    if not _ends(".log", ".out", ".txt")(path):
        return False
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        return any(map(_VERL.search, islice(lines, _LOOKED_AT)))


def _verl(path: str, config: ImportConfig) -> "pandas.DataFrame":
    import pandas

    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        return pandas.DataFrame(list(_verl_rows(lines)))


def _verl_rows(lines: Iterable[str]) -> Iterator[dict[str, float]]:
    for found in filter(None, map(_VERL.search, lines)):
        row = {"step": float(found[1])}
        for part in found[2].strip().split(" - "):
            key, _, value = part.rpartition(":")
            if number := _NUMBER.fullmatch(value.strip()):
                row[key.strip()] = float(number[1])
        yield row


def _is_mlflow(source: str) -> bool:
    if "://" in source:
        return True
    path = Path(source)
    return _ends(".db")(source) or (path.is_dir() and any(path.glob("*/meta.yaml")))


def _mlflow(source: str, config: ImportConfig) -> "pandas.DataFrame":
    """Runs of one experiment: a row for each step of any metric, with the run's parameters."""
    import pandas
    from mlflow import MlflowClient

    path = Path(source)
    address = source if "://" in source else f"sqlite:///{path.absolute()}"
    client = MlflowClient(tracking_uri=str(path.absolute()) if path.is_dir() else address)
    known = {each.name: each.experiment_id for each in client.search_experiments()}
    chosen = [config.experiment] if config.experiment is not None else list(known)
    if unknown := [name for name in chosen if name not in known]:
        rule = f"is none of the store's: {', '.join(known)}"
        raise SettingError("import.experiment", unknown[0], rule)
    found = {name: list(_all_runs(client, known[name])) for name in chosen}
    used = [name for name, runs in found.items() if runs]
    if len(used) != 1:
        rule = f"is not given, and experiments with runs are {', '.join(used) or 'none'}"
        nearest = f"import.experiment={used[0]}" if used else ""
        raise SettingError("import.experiment", config.experiment or "null", rule, nearest)
    rows: list[dict[str, Any]] = []
    for run in found[used[0]]:
        by_step: dict[int, dict[str, Any]] = {}
        for key in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, key):
                by_step.setdefault(point.step, {})[key] = point.value
        # A metric that a parameter repeats says the same, at its first step alone.
        own = {"run": f"{run.info.run_name} {run.info.run_id[:8]}", **run.data.params}
        rows += [{**values, **own, "step": step} for step, values in sorted(by_step.items())]
    return pandas.DataFrame(rows)


def _all_runs(client: Any, experiment: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        yield from page
        if not (token := page.token):
            return


def _events(path: str, config: ImportConfig) -> "pandas.DataFrame":
    """Scalars of TensorBoard's event files in one directory: a row for each step."""
    import pandas
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(Path(path).parent), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    by_step: dict[int, dict[str, float]] = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            by_step.setdefault(event.step, {})[tag] = event.value
    for tag in events.Tags()["tensors"]:
        for event in events.Tensors(tag):
            value = tensor_util.make_ndarray(event.tensor_proto)
            if value.ndim == 0 and value.dtype.kind == "f":
                by_step.setdefault(event.step, {})[tag] = float(value)
    return pandas.DataFrame([{"step": step, **by_step[step]} for step in sorted(by_step)])


def _wandb(path: str, config: ImportConfig) -> "pandas.DataFrame":
    """The history of one W&B run on the disk, with its config and name."""
    import pandas
    from wandb.proto.wandb_internal_pb2 import Record

    rows: list[dict[str, Any]] = []
    own: dict[str, Any] = {}
    for data in _leveldb_log(Path(path).read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "run":
            run = record.run
            own |= dict(_flat(_items(run.config.update)))
            own["run"] = f"{run.display_name} {run.run_id}".strip()
        elif record.WhichOneof("record_type") == "history":
            rows.append(dict(_flat(_items(record.history.item))))
    return pandas.DataFrame([{**own, **row} for row in rows])


def _leveldb_log(data: bytes) -> Iterator[bytes]:
    """Records of a log in LevelDB's format (its doc/log_format.md), which W&B's begins with `:W&B`.

    W&B's package reads it no longer (0.31). A run that was killed ends in a torn record: what comes
    before counts.
    """
    if data[:4] != b":W&B":
        raise ValueError("does not begin as a file of W&B")
    at, parts = _HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack_from("<LHB", data, at)
        part = data[at + _HEADER : at + _HEADER + length]
        if len(part) < length or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            return
        at += _HEADER + length
        parts = part if kind in (_FULL, _FIRST) else parts + part
        if kind in (_FULL, _LAST):
            yield parts


def _items(items: Iterable[Any]) -> dict[str, Any]:
    """Values by name; W&B 0.28 moved names from `key` to `nested_key`."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by dotted name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, float) or not math.isnan(value):
            yield f"{before}{name}", value


READERS: tuple[Reader, ...] = (
    Reader(name="mlflow", fits=_is_mlflow, read=_mlflow, needs="mlflow"),
    Reader(
        name="wandb",
        fits=_ends(".wandb"),
        read=_wandb,
        needs="wandb",
        run=lambda path: str(Path(path).parent),
    ),
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
    Reader(name="csv", fits=_ends(".csv", ".csv.gz"), read=_csv),
    Reader(name="tsv", fits=_ends(".tsv"), read=_tsv),
    Reader(name="jsonl", fits=_ends(".jsonl", ".ndjson"), read=_json_lines),
    Reader(name="parquet", fits=_ends(".parquet"), read=_parquet, needs="pyarrow"),
    Reader(name="verl", fits=_is_verl, read=_verl),
)


def read_sources(sources: list[str], config: ImportConfig) -> "pandas.DataFrame":
    """The rows of all sources as one table, each with the file or directory of its run.

    Raises SettingError for a source that is not there, that no reader fits, or that cannot be read.
    """
    import pandas

    frames = []
    for source in sources:
        reader, paths = _reader_of(source, config)
        _require(reader)
        for run, path in paths.items():
            frame = _read(reader, path, config)
            if FILE not in frame and (len(paths) > 1 or len(sources) > 1 or reader.run is not str):
                frame[FILE] = run
            frames.append(frame)
    whole = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    if whole.empty:
        raise SettingError("from", ", ".join(sources), "has no rows")
    return whole if config.runs is None else _with_runs(whole, config)


def _read(reader: Reader, path: str, config: ImportConfig) -> "pandas.DataFrame":
    try:
        return reader.read(path, config)
    except SettingError:
        raise
    except Exception as error:
        # Whatever a library makes of a file that is none of its own.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        rule = f"cannot be read as {reader.name} ({said})"
        raise SettingError("from", path, rule, "import.reader=NAME of another kind") from None


def _reader_of(source: str, config: ImportConfig) -> tuple[Reader, dict[str, str]]:
    """The reader of a source, and what it reads there, by the run's name: the source itself, or
    files in it."""
    known = {reader.name: reader for reader in READERS}
    if config.reader is not None and config.reader not in known:
        raise SettingError("import.reader", config.reader, f"is none of {', '.join(known)}")
    tried = (known[config.reader],) if config.reader else READERS
    path = Path(source)
    if "://" not in source and not path.exists():
        raise SettingError("from", source, "is no file or directory, and no address")
    if (reader := next((each for each in tried if each.fits(source)), None)) is not None:
        return reader, {reader.run(source): source}
    if config.reader is not None and path.is_file():
        return tried[0], {tried[0].run(source): source}
    within = sorted((str(each) for each in path.rglob("*")), key=lambda each: (len(each), each))
    for reader in tried:
        if found := [each for each in within if reader.fits(each)]:
            return reader, {_below(reader.run(each), path): each for each in found}
    rule = f"is read by none of {', '.join(reader.name for reader in tried)}"
    raise SettingError("from", source, rule, "import.reader=NAME, or a CSV file")


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
    more = read_sources([config.runs], ImportConfig())
    own = config.run or next((name for name in USUAL["run"] if name in frame), None)
    if "run" not in more or not isinstance(own, str) or own not in frame:
        rule = "has a column run, whose values are the names of the runs"
        raise SettingError("import.runs", config.runs, rule, "import.run=COLUMN of the logs")
    names = set(frame[own].astype(str))
    lacking = sorted(names - set(more["run"].astype(str)))
    if lacking:
        rule = f"has no row for {len(lacking)} of {len(names)} runs, {lacking[0]} among them"
        raise SettingError("import.runs", config.runs, rule)
    told = more.astype({"run": str}).drop_duplicates("run").set_index("run")
    joined = frame.drop(columns=[name for name in told.columns if name in frame])
    return joined.join(told, on=joined[own].astype(str))
