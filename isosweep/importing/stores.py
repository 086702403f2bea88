"""MLflow's stores as tables. A store is only read: of a database file a copy is opened, tables are
selected from, and files of `mlruns` are opened for reading.

MLflow's own client migrates the database that it opens, and makes directories in `mlruns`.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from isosweep.config.study import ImportConfig
from isosweep.config.trust import without_password
from isosweep.errors import SettingError
from isosweep.importing.tables import rows_in_time
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Tables of MLflow's tracking store that are read (mlflow/store/tracking/dbmodels/models.py); their
# columns are those of MLflow 1.0 (2019) to 3.17.
_TABLES = {"experiments", "runs", "metrics", "params", "tags"}
_ENDINGS = (".db", ".sqlite", ".sqlite3")
# What SQLite keeps beside a database until it is written into it.
_BESIDE = ("", "-wal", "-journal")
# MLflow keeps an infinite value as the largest of its columns (sqlalchemy_store.py).
_INFINITE = 1.7e308
# Databases whose tables are selected from; any other address is a server's.
_DATABASES = ("postgresql", "mysql", "mssql")
# The tag that names a run, and tables that a refusal lists.
_NAME, _LISTED = "mlflow.runName", 8
_ACTIVE = "lifecycle_stage = 'active'"

# A run: its id, name, parameters, and points (time, step, metric, value).
StoredRun = tuple[str, str, dict[str, str], list[tuple[float, int, str, float]]]
# Experiments by name, each with what reads its runs.
Experiments = dict[str, Callable[[], Iterable[StoredRun]]]


def is_store(source: str) -> bool:
    """Whether a path or an address is a store of MLflow's."""
    if "://" in source:
        return True
    if Path(source).is_dir():
        return bool(_runs_by_experiment(Path(source)))
    return is_database(source) and _table_names(source) >= _TABLES


def is_database(source: str) -> bool:
    """Whether a path is an SQLite database."""
    path = Path(source)
    if not (source.lower().endswith(_ENDINGS) and path.is_file()):
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _table_names(source: str) -> set[str]:
    """Names of the tables in an SQLite database, which is neither written nor locked."""
    with _copied(source) as copy, closing(sqlite3.connect(copy)) as known:
        try:
            return {name for (name,) in known.execute("select name from sqlite_master")}
        except sqlite3.DatabaseError:
            return set()


def refuse_database(source: str, tables: Iterable[str] | None = None) -> NoReturn:
    """Raise SettingError about a database that is none of MLflow's."""
    known = _table_names(source) if tables is None else tables
    names = sorted(name for name in known if not name.startswith("sqlite_"))
    rule = f"is no store of MLflow's: its tables are {', '.join(names[:_LISTED]) or 'none'}"
    nearest = "a store of MLflow's, or a CSV file with a row for each evaluation"
    raise SettingError("import.files", without_password(source), rule, nearest)


@contextmanager
def _copied(source: str) -> Iterator[Path]:
    """A copy of an SQLite database in a temporary directory, with what SQLite keeps beside it.

    Raises SettingError where the database changes meanwhile.
    """
    path = Path(source).resolve()
    files = [each for end in _BESIDE if (each := path.with_name(path.name + end)).exists()]
    with tempfile.TemporaryDirectory(prefix="isosweep-import-") as directory:
        before = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        for file in files:
            shutil.copyfile(file, Path(directory, file.name))
        if [(file.stat().st_size, file.stat().st_mtime_ns) for file in files] != before:
            nearest = "the http address of its server, or the same again"
            raise SettingError("import.files", source, "changed while it was read", nearest)
        yield Path(directory, path.name)


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
        for run_id, called, params, points in experiments[name or next(iter(experiments))]():
            # A metric that a parameter repeats says the same, at its first step alone.
            own = {"run": f"{called} {run_id[:8]}".strip(), **params}
            rows += [{**values, **own, "step": values["step"]} for values in rows_in_time(points)]
    return pandas.DataFrame(rows)


@contextmanager
def _opened(source: str, notes: list[Note]) -> Iterator[Experiments]:
    path = source.removeprefix("sqlite:///").removeprefix("file://")
    if "://" in path and path.partition(":")[0].partition("+")[0] in _DATABASES:
        yield _experiments_in_tables(path, path)
    elif "://" in path:
        yield _experiments_of_server(path)
    elif Path(path).is_dir():
        yield {
            str(_document(directory).get("name", directory.name)): partial(
                _runs_in_files, runs, notes
            )
            for directory, runs in _runs_by_experiment(Path(path)).items()
        }
    elif not Path(path).is_file():
        raise SettingError("import.files", source, "is no file or directory")
    else:
        with _copied(path) as copy:
            yield _experiments_in_tables(f"sqlite:///{copy}", path)


def _experiments_in_tables(address: str, source: str) -> Experiments:
    """Experiments with runs in a database."""
    import pandas
    import sqlalchemy

    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
    tables = sqlalchemy.inspect(engine).get_table_names()
    if not set(tables) >= _TABLES:
        refuse_database(source, tables)

    def select(query: str, **values: Any) -> "pandas.DataFrame":
        with engine.connect() as connection:
            return pandas.read_sql(sqlalchemy.text(query), connection, params=values)

    found = select(
        "select distinct e.experiment_id, e.name from experiments e "
        "join runs r on r.experiment_id = e.experiment_id "
        f"where r.{_ACTIVE} and e.{_ACTIVE}"
    )
    return {
        name: partial(_runs_in_tables, select, int(number))
        for number, name in found.itertuples(index=False, name=None)
    }


def _runs_in_tables(select: Callable[..., "pandas.DataFrame"], e: int) -> Iterator[StoredRun]:
    own = f"where run_uuid in (select run_uuid from runs where experiment_id = :e and {_ACTIVE})"
    tags, params, metrics = (
        dict([*select(f"select * from {table} {own}", e=e).groupby("run_uuid")])
        for table in ("tags", "params", "metrics")
    )
    for run, name in select(f"select run_uuid, name from runs {own}", e=e).to_numpy():
        named, settings = (
            dict(of[run][["key", "value"]].to_numpy()) if run in of else {} for of in (tags, params)
        )
        points: list[tuple[float, int, str, float]] = []
        if run in metrics:
            logged = metrics[run]
            value = logged["value"].astype(float).mask(logged["is_nan"].astype(bool))
            value = value.mask(value.abs() > _INFINITE, np.copysign(np.inf, value))
            columns = (logged["timestamp"], logged["step"], logged["key"], value)
            points = [*zip(*columns, strict=True)]
        yield run, named.get(_NAME, name or ""), settings, points


def _experiments_of_server(address: str) -> Experiments:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=address)
    found: Experiments = {}
    for experiment in client.search_experiments():
        runs: list[Any] = []
        token = None
        while True:
            page = client.search_runs(
                [experiment.experiment_id], max_results=1000, page_token=token
            )
            runs += page
            if not (token := page.token):
                break
        if runs:
            found[experiment.name] = partial(_runs_of_server, client, runs)
    return found


def _runs_of_server(client: Any, runs: Iterable[Any]) -> Iterator[StoredRun]:
    for run in runs:
        points = [
            (point.timestamp, point.step, key, point.value)
            for key in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, key)
        ]
        yield run.info.run_id, run.info.run_name or "", run.data.params, points


def _runs_by_experiment(root: Path) -> dict[Path, list[Path]]:
    """Directories of the runs of each experiment in `mlruns`, or in the directory of one."""
    runs = [path.parent for depth in ("*", "*/*") for path in root.glob(f"{depth}/metrics")]
    found: dict[Path, list[Path]] = {}
    for run in sorted(runs):
        if (run.parent / "meta.yaml").is_file():
            found.setdefault(run.parent, []).append(run)
    return found


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
    metrics, params, tags = (
        {
            str(path.relative_to(directory / kind)): path.read_text(encoding="utf-8")
            for path in sorted((directory / kind).rglob("*"))
            if path.is_file()
        }
        for kind in ("metrics", "params", "tags")
    )
    points = []
    for key, text in metrics.items():
        for line in text.split("\n")[:-1]:
            at, value, step = line.split(" ")[:3]
            points.append((float(at), int(step), key, float(value)))
    name = tags.get(_NAME) or meta.get("run_name") or ""
    return directory.name, str(name), params, points
