"""MLflow's stores as tables. A store is only read: of a database file a copy is opened, tables are
asked for by SELECT alone, and files of `mlruns` are opened for reading.

MLflow's own client migrates the database that it opens, and makes directories in `mlruns`.
"""

import math
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from isosweep.config.study import ImportConfig
from isosweep.config.trust import without_password
from isosweep.errors import SettingError
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Tables of MLflow's tracking store that are read (mlflow/store/tracking/dbmodels/models.py); their
# columns are those of MLflow 1.0 (2019) to 3.17.
_TABLES = {"experiments", "runs", "metrics", "params", "tags"}
_ENDINGS = (".db", ".sqlite", ".sqlite3")
# What SQLite keeps beside a database until it is written into it.
_BESIDE = ("-wal", "-journal")
# Times that a database which changes while it is copied is copied again, and seconds between.
_TRIES, _PAUSE_S = 5, 0.5
# MLflow keeps an infinite value as the largest of its columns (sqlalchemy_store.py).
_INFINITE = 1.7e308
# Databases whose tables are selected from; any other address is a server's.
_DATABASES = ("postgresql", "mysql", "mssql")
# The tag that names a run, and tables that a refusal lists.
_NAME, _LISTED = "mlflow.runName", 8


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run of a store: points are (time, step, metric, value)."""

    run_id: str
    name: str
    params: dict[str, str]
    points: list[tuple[int, int, str, float]]


# Experiments by name, each with what reads its runs.
Experiments = dict[str, Callable[[], Iterable[StoredRun]]]


def is_store(source: str) -> bool:
    """Whether a path or an address is a store of MLflow's."""
    if "://" in source:
        return True
    path = Path(source)
    if path.is_dir():
        return bool(_experiment_directories(path))
    return is_database(source) and table_names(source) >= _TABLES


def is_database(source: str) -> bool:
    """Whether a path is an SQLite database."""
    path = Path(source)
    if not (source.lower().endswith(_ENDINGS) and path.is_file()):
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def table_names(source: str) -> set[str]:
    """Names of the tables in an SQLite database, which is neither written nor locked."""
    path = Path(source).absolute()
    log = path.with_name(f"{path.name}-wal")
    with copied(source) if log.exists() else nullcontext(path) as readable:
        # Without `immutable`, SQLite makes files beside a database with a write-ahead log.
        address = f"file:{quote(str(readable))}?mode=ro{'' if log.exists() else '&immutable=1'}"
        with closing(sqlite3.connect(address, uri=True)) as known:
            try:
                return {name for (name,) in known.execute("select name from sqlite_master")}
            except sqlite3.DatabaseError:
                return set()


def foreign_database(source: str, tables: Iterable[str]) -> SettingError:
    """That a database is none of MLflow's."""
    names = sorted(name for name in tables if not name.startswith("sqlite_"))
    rule = f"is no store of MLflow's: its tables are {', '.join(names[:_LISTED]) or 'none'}"
    nearest = "a store of MLflow's, or a CSV file with a row for each evaluation"
    return SettingError("import.files", without_password(source), rule, nearest)


@contextmanager
def copied(source: str) -> Iterator[Path]:
    """A copy of an SQLite database in a temporary directory, with what SQLite keeps beside it.

    Raises SettingError where the database changes all the time.
    """
    path = Path(source).resolve()
    files = [path, *(path.with_name(path.name + end) for end in _BESIDE)]
    with tempfile.TemporaryDirectory(prefix="isosweep-import-") as directory:
        for attempt in range(_TRIES):
            time.sleep(_PAUSE_S if attempt else 0)
            before = _states(files)
            for file in files:
                Path(directory, file.name).unlink(missing_ok=True)
                if file.exists():
                    shutil.copyfile(file, Path(directory, file.name))
            if _states(files) == before:
                yield Path(directory, path.name)
                return
        rule = "changes while it is read"
        raise SettingError(
            "import.files", source, rule, "the http address of its server, or a copy of it"
        )


def _states(files: Iterable[Path]) -> list[tuple[int, int] | None]:
    found = [file.stat() if file.exists() else None for file in files]
    return [state and (state.st_size, state.st_mtime_ns) for state in found]


def read_store(
    sources: Sequence[str], config: ImportConfig, notes: list[Note]
) -> "pandas.DataFrame":
    """Runs of one experiment: a row for each step of any metric, with the run's parameters.

    Raises SettingError for a database that is none of MLflow's, and for an experiment that is not
    there or not chosen.
    """
    import pandas

    rows: list[dict[str, Any]] = []
    with _opened(sources[0], notes) as experiments:
        name = config.experiment
        listed = ", ".join(sorted(experiments)) or "none"
        if name is not None and name not in experiments:
            rule = f"has no runs in this store; experiments with runs are {listed}"
            raise SettingError("import.experiment", name, rule)
        if name is None and len(experiments) != 1:
            rule = f"is not given, and experiments with runs are {listed}"
            nearest = f"import.experiment={min(experiments)}" if experiments else ""
            raise SettingError("import.experiment", "null", rule, nearest)
        for run in experiments[name or next(iter(experiments))]():
            # A metric that a parameter repeats says the same, at its first step alone.
            own = {"run": f"{run.name} {run.run_id[:8]}".strip(), **run.params}
            rows += [
                {**values, **own, "step": values["step"]} for values in rows_in_time(run.points)
            ]
    return pandas.DataFrame(rows)


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


@contextmanager
def _opened(source: str, notes: list[Note]) -> Iterator[Experiments]:
    path = source.removeprefix("sqlite:///").removeprefix("file://")
    if "://" in path and path.partition(":")[0].partition("+")[0] not in _DATABASES:
        yield _experiments_of_server(path)
    elif "://" in path:
        with _connected(path, path) as experiments:
            yield experiments
    elif Path(path).is_dir():
        yield _experiments_in_files(Path(path), notes)
    elif not Path(path).is_file():
        raise SettingError("import.files", source, "is no file or directory")
    elif not (tables := table_names(path)) >= _TABLES:
        raise foreign_database(path, tables)
    else:
        with copied(path) as copy, _connected(f"sqlite:///{copy}", path) as experiments:
            yield experiments


@contextmanager
def _connected(address: str, source: str) -> Iterator[Experiments]:
    """Experiments with runs in a database, which is read by SELECT alone."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(address)
    try:
        tables = sqlalchemy.inspect(engine).get_table_names()
        if not set(tables) >= _TABLES:
            raise foreign_database(source, tables)
        with engine.connect() as connection:

            def rows(query: str, **values: object) -> list[tuple[Any, ...]]:
                return [tuple(row) for row in connection.execute(sqlalchemy.text(query), values)]

            found = rows(
                "select distinct e.experiment_id, e.name from experiments e "
                "join runs r on r.experiment_id = e.experiment_id "
                "where r.lifecycle_stage = 'active' and e.lifecycle_stage = 'active'"
            )
            yield {name: partial(_runs_of_experiment, rows, number) for number, name in found}
    finally:
        engine.dispose()


def _runs_of_experiment(
    rows: Callable[..., list[tuple[Any, ...]]], experiment: Any
) -> Iterator[StoredRun]:
    own = "in (select run_uuid from runs where experiment_id = :e and lifecycle_stage = 'active')"
    texts: dict[str, dict[str, dict[str, str]]] = {"tags": {}, "params": {}}
    for table, by_run in texts.items():
        for run, key, value in rows(
            f"select run_uuid, key, value from {table} where run_uuid {own}", e=experiment
        ):
            by_run.setdefault(run, {})[key] = value
    points: dict[str, list[tuple[int, int, str, float]]] = {}
    columns = "run_uuid, timestamp, step, key, value, is_nan"
    for run, at, step, key, value, is_nan in rows(
        f"select {columns} from metrics where run_uuid {own}", e=experiment
    ):
        read = (
            math.nan
            if is_nan
            else math.copysign(math.inf, value)
            if abs(value) > _INFINITE
            else value
        )
        points.setdefault(run, []).append((at, step, key, read))
    for run, name in rows(f"select run_uuid, name from runs where run_uuid {own}", e=experiment):
        yield StoredRun(
            run_id=run,
            name=texts["tags"].get(run, {}).get(_NAME, name or ""),
            params=texts["params"].get(run, {}),
            points=points.get(run, []),
        )


def _experiments_of_server(address: str) -> Experiments:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=address)
    found: Experiments = {}
    for experiment in client.search_experiments():
        runs = list(_pages(client, experiment.experiment_id))
        if runs:
            found[experiment.name] = partial(_runs_of_server, client, runs)
    return found


def _pages(client: Any, experiment: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        yield from page
        if not (token := page.token):
            return


def _runs_of_server(client: Any, runs: Iterable[Any]) -> Iterator[StoredRun]:
    for run in runs:
        yield StoredRun(
            run_id=run.info.run_id,
            name=run.info.run_name or "",
            params=run.data.params,
            points=[
                (point.timestamp, point.step, key, point.value)
                for key in run.data.metrics
                for point in client.get_metric_history(run.info.run_id, key)
            ],
        )


def _experiment_directories(root: Path) -> dict[Path, list[Path]]:
    """Directories of the runs of each experiment in `mlruns`, or in the directory of one."""
    runs = [path.parent for depth in ("*", "*/*") for path in root.glob(f"{depth}/metrics")]
    found: dict[Path, list[Path]] = {}
    for run in sorted(runs):
        if (run.parent / "meta.yaml").is_file():
            found.setdefault(run.parent, []).append(run)
    return found


def _experiments_in_files(root: Path, notes: list[Note]) -> Experiments:
    return {
        str(_document(directory).get("name", directory.name)): partial(_runs_in_files, runs, notes)
        for directory, runs in _experiment_directories(root).items()
    }


def _document(directory: Path) -> dict[str, Any]:
    """What a directory's meta.yaml says. Raises ValueError where it is not there, or broken."""
    import yaml

    try:
        read = yaml.safe_load((directory / "meta.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(read, dict):
        raise ValueError("has no names and values")
    return read


def _runs_in_files(directories: Iterable[Path], notes: list[Note]) -> Iterator[StoredRun]:
    broken = []
    for directory in directories:
        try:
            if (meta := _document(directory)).get("lifecycle_stage", "active") == "active":
                yield _run_in_files(directory, meta)
        except (OSError, ValueError):
            broken.append(directory)
    if broken:
        notes.append(Note(kind="unreadable", count=len(broken), example=str(broken[0])))


def _run_in_files(directory: Path, meta: dict[str, Any]) -> StoredRun:
    """Raises ValueError for a line of a metric that is none; MLflow ends each, so that a last line
    without an end is one that was torn."""
    points = []
    metrics = directory / "metrics"
    for path in sorted(path for path in metrics.rglob("*") if path.is_file()):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            at, value, step = line.split(" ")[:3]
            points.append((int(at), int(step), str(path.relative_to(metrics)), float(value)))
    texts = {
        kind: {
            str(path.relative_to(directory / kind)): path.read_text(encoding="utf-8")
            for path in (directory / kind).rglob("*")
            if path.is_file()
        }
        for kind in ("params", "tags")
    }
    name = texts["tags"].get(_NAME) or meta.get("run_name") or ""
    return StoredRun(run_id=directory.name, name=str(name), params=texts["params"], points=points)
