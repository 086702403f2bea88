"""MLflow's stores as tables. A store is only read: of a database file a copy is opened, tables are
selected from, and files of `mlruns` are opened for reading.

MLflow's own client migrates the database that it opens, and makes directories in `mlruns`.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_TABLES = {"experiments", "runs", "metrics", "params"}
# What SQLite keeps beside a database until it is written into it.
_BESIDE = ("", "-wal", "-journal")
# MLflow keeps an infinite value as the largest of its columns (sqlalchemy_store.py).
_INFINITE = 1.7e308
# Databases whose tables are selected from; any other address is a server's.
_DATABASES = ("postgresql", "mysql", "mssql")
# Tables that a refusal lists.
_LISTED = 8

# A run's parameters, and its points: (time, step, metric, value).
Logged = tuple[dict[str, str], list[tuple[float, int, str, float]]]


@dataclass(frozen=True, kw_only=True)
class _StoredRun:
    """A run that was not deleted. `read`: what it has logged; ValueError where that is broken."""

    experiment: str
    run_id: str
    name: str
    read: Callable[[], Logged]


def is_store(source: str) -> bool:
    """Whether a path is a store of MLflow's."""
    if Path(source).is_dir():
        return bool(_directories(Path(source)))
    return is_database(source) and _table_names(source) >= _TABLES


def is_database(source: str) -> bool:
    """Whether a path is an SQLite database."""
    if not source.lower().endswith((".db", ".sqlite", ".sqlite3")):
        return False
    with Path(source).open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _table_names(source: str) -> set[str]:
    """Names of the tables in an SQLite database, which is neither written nor locked."""
    with _copied(source) as copy, closing(sqlite3.connect(copy)) as known:
        return {name for (name,) in known.execute("select name from sqlite_master")}


@contextmanager
def _copied(source: str) -> Iterator[Path]:
    """A copy of an SQLite database in a temporary directory, with what SQLite keeps beside it."""
    path = Path(source).resolve()
    with tempfile.TemporaryDirectory(prefix="isosweep-import-") as directory:
        for ending in _BESIDE:
            if (file := path.with_name(path.name + ending)).exists():
                shutil.copyfile(file, Path(directory, file.name))
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
    broken: list[str] = []
    with _opened(sources[0]) as runs:
        experiments = sorted({run.experiment for run in runs})
        chosen = config.experiment or (experiments[0] if len(experiments) == 1 else "null")
        if chosen not in experiments:
            rule = f"experiments with runs are {', '.join(experiments) or 'none'}"
            nearest = f"import.experiment={experiments[0]}" if experiments else ""
            raise SettingError("import.experiment", chosen, rule, nearest)
        for run in (run for run in runs if run.experiment == chosen):
            try:
                params, points = run.read()
            except (OSError, ValueError):
                broken.append(run.run_id)
                continue
            # A metric that a parameter repeats says the same, at its first step alone.
            own = {"run": f"{run.name} {run.run_id[:8]}".strip(), **params}
            rows += [{**values, **own, "step": values["step"]} for values in rows_in_time(points)]
    if broken:
        notes.append(Note(kind="unreadable", count=len(broken), example=broken[0]))
    return pandas.DataFrame(rows)


@contextmanager
def _opened(source: str) -> Iterator[list[_StoredRun]]:
    path = source.removeprefix("sqlite:///").removeprefix("file://")
    if "://" in path and path.partition(":")[0].partition("+")[0] in _DATABASES:
        yield _in_tables(path, path)
    elif "://" in path:
        yield _of_server(path)
    elif Path(path).is_dir():
        yield [*_in_files(Path(path))]
    else:
        with _copied(path) as copy:
            yield _in_tables(f"sqlite:///{copy}", path)


def _in_tables(address: str, source: str) -> list[_StoredRun]:
    import pandas
    import sqlalchemy

    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
    tables = sorted(sqlalchemy.inspect(engine).get_table_names())
    if not _TABLES.issubset(tables):
        rule = f"is no store of MLflow's: its tables are {', '.join(tables[:_LISTED]) or 'none'}"
        nearest = "a store of MLflow's, or a CSV file with a row for each evaluation"
        raise SettingError("import.files", without_password(source), rule, nearest)

    def select(query: str, run: str = "") -> "pandas.DataFrame":
        with engine.connect() as connection:
            return pandas.read_sql(sqlalchemy.text(query), connection, params={"run": run})

    def read(run: str) -> Logged:
        params = select("select key, value from params where run_uuid = :run", run)
        points = select("select * from metrics where run_uuid = :run", run)
        value = points["value"].astype(float).mask(points["is_nan"].astype(bool))
        points["value"] = value.mask(value.abs() > _INFINITE, np.copysign(np.inf, value))
        own = points[["timestamp", "step", "key", "value"]]
        return dict(params.to_numpy()), [*own.itertuples(index=False, name=None)]

    active = "r.lifecycle_stage = 'active' and e.lifecycle_stage = 'active'"
    found = select(
        "select e.name, r.run_uuid, r.name from experiments e "
        f"join runs r on r.experiment_id = e.experiment_id where {active}"
    )
    return [
        _StoredRun(experiment=experiment, run_id=run, name=name or "", read=partial(read, run))
        for experiment, run, name in found.itertuples(index=False, name=None)
    ]


def _of_server(address: str) -> list[_StoredRun]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=address)

    def read(run: Any) -> Logged:
        return run.data.params, [
            (point.timestamp, point.step, key, point.value)
            for key in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, key)
        ]

    found = []
    for experiment in client.search_experiments():
        token, ids = None, [experiment.experiment_id]
        while True:
            page = client.search_runs(ids, max_results=1000, page_token=token)
            found += [
                _StoredRun(
                    experiment=experiment.name,
                    run_id=run.info.run_id,
                    name=run.info.run_name or "",
                    read=partial(read, run),
                )
                for run in page
            ]
            if not (token := page.token):
                break
    return found


def _directories(root: Path) -> list[Path]:
    """Directories of the runs in `mlruns`, or in the directory of one experiment."""
    found = (path.parent for depth in ("*", "*/*") for path in root.glob(f"{depth}/metrics"))
    return sorted(run for run in found if (run.parent / "meta.yaml").is_file())


def _in_files(root: Path) -> Iterator[_StoredRun]:
    """A run whose meta.yaml is missing or empty counts as active, and cannot be read."""
    for run in _directories(root):
        meta = _meta(run)
        if meta.get("lifecycle_stage") != "deleted":
            yield _StoredRun(
                experiment=str(_meta(run.parent).get("name", run.parent.name)),
                run_id=run.name,
                name=meta.get("run_name") or "",
                read=partial(_read_files, run, meta),
            )


def _meta(directory: Path) -> dict[str, Any]:
    import yaml

    path = directory / "meta.yaml"
    return (yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None) or {}


def _read_files(run: Path, meta: dict[str, Any]) -> Logged:
    """MLflow ends each line of a metric, so that a last one without an end was torn."""
    if not meta:
        raise ValueError("its meta.yaml is missing or empty")
    params, metrics = (
        {
            str(path.relative_to(run / kind)): path.read_text(encoding="utf-8")
            for path in sorted((run / kind).rglob("*"))
            if path.is_file()
        }
        for kind in ("params", "metrics")
    )
    lines = ((key, line.split(" ")) for key, of in metrics.items() for line in of.split("\n")[:-1])
    return params, [(float(at), int(step), key, float(x)) for key, (at, x, step, *_) in lines]
