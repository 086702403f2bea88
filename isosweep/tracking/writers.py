"""How what is new of a run gets into MLflow: by its client, or by SQL into a SQLite file.

MLflow's own way into SQLite makes an object of each value: 110 microseconds a value, 40 s for 300
runs of 100 steps. Sixteen times less takes one statement for all values of a run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from isosweep.tracking.points import MlflowStatus, Point

# MLflow REST API, `runs/log-batch`: limits of one request.
MAX_BATCH_METRICS = 1000
MAX_BATCH_PARAMS = 100
# SQLite cannot hold an infinity: MLflow's own stand-in, the largest double.
LARGEST = 1.7976931348623157e308
# A row of MLflow's table of metrics.
_COLUMNS = ("key", "timestamp", "step", "run_uuid", "value", "is_nan")
# Seconds that SQLite waits for another writer, as MLflow has it wait.
BUSY_S = 20


@dataclass(kw_only=True)
class News:
    """What the store lacks of a run. `status` is None where that is as it should be.

    `seal` are tags that say that all points are there, so they are set after them.
    """

    params: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    seal: Mapping[str, str] = field(default_factory=dict)
    status: MlflowStatus | None = None
    end_time: int | None = None

    def __bool__(self) -> bool:
        return bool(self.params or self.points or self.tags or self.seal or self.status)


class Writer(Protocol):
    """Adds to a run that the store has."""

    def write(self, mlflow_id: str, news: News) -> None:
        """Add `news`; what of it is there already stays as it is. Raises as the store does."""


class ClientWriter:
    """By MLflow's client: any store."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def write(self, mlflow_id: str, news: News) -> None:
        """Add `news`, the metrics of one step never apart: any of them then shows that all are."""
        from mlflow.entities import Param, RunTag

        tags = [RunTag(key, value) for key, value in news.tags.items()]
        seal = [RunTag(key, value) for key, value in news.seal.items()]
        params = [Param(key, value) for key, value in news.params.items()]
        for start in range(MAX_BATCH_PARAMS, len(params), MAX_BATCH_PARAMS):
            rest = params[start : start + MAX_BATCH_PARAMS]
            self._client.log_batch(mlflow_id, params=rest)
        first: dict[str, Any] = {"params": params[:MAX_BATCH_PARAMS], "tags": tags}
        room = MAX_BATCH_METRICS - len(first["params"]) - len(tags) - len(seal)
        batches = list(_batches(news.points, room)) or [[]]
        for number, batch in enumerate(batches):
            parts = first if number == 0 else {"params": [], "tags": []}
            if number == len(batches) - 1:
                parts["tags"] = [*parts["tags"], *seal]
            if batch or parts["params"] or parts["tags"]:
                self._client.log_batch(mlflow_id, metrics=batch, **parts)
        if news.status in ("RUNNING", "SCHEDULED"):
            self._client.update_run(mlflow_id, status=news.status)
        elif news.status is not None:
            self._client.set_terminated(mlflow_id, news.status, end_time=news.end_time)


def _batches(points: Sequence[Point], room: int) -> Iterator[list[Any]]:
    from mlflow.entities import Metric

    batch: list[Any] = []
    for point in points:
        if batch and len(batch) + len(point.values) > room:
            yield batch
            batch = []
        when = milliseconds(point.unix_time)
        batch += [Metric(key, value, when, point.step) for key, value in point.values.items()]
    if batch:
        yield batch


class SqliteWriter:
    """Into MLflow's own tables of a SQLite file, one transaction a run.

    Tables are those that the installed MLflow declares, in a file that it has opened, and thereby
    compared with them; where these have other columns than are known here, the client writes. A
    test compares the rows with those of `ClientWriter`.
    """

    def __init__(self, uri: str) -> None:
        import sqlalchemy

        # No pool: a connection that outlives a transaction would write into a file that was
        # removed since.
        self._engine = sqlalchemy.create_engine(
            uri, poolclass=sqlalchemy.NullPool, connect_args={"timeout": BUSY_S}
        )

    @staticmethod
    def knows_tables() -> bool:
        """Whether the installed MLflow's tables are those that are written here."""
        from mlflow.store.tracking.dbmodels.models import (
            SqlLatestMetric,
            SqlMetric,
            SqlParam,
            SqlTag,
        )

        pair = {"key", "value", "run_uuid"}
        tables = {
            SqlMetric: {*_COLUMNS},
            SqlLatestMetric: {*_COLUMNS},
            SqlParam: pair,
            SqlTag: pair,
        }
        return all(set(each.__table__.columns.keys()) == names for each, names in tables.items())

    def write(self, mlflow_id: str, news: News) -> None:
        """Add `news` at once: all of it or nothing."""
        from mlflow.store.tracking.dbmodels.models import SqlMetric, SqlParam, SqlRun, SqlTag
        from sqlalchemy import update
        from sqlalchemy.dialects.sqlite import insert

        rows = _rows(mlflow_id, news.points)
        with self._engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            # 64 MB in the place of 2: metrics have three indexes.
            connection.exec_driver_sql("PRAGMA cache_size = -64000")
            if news.params:
                values = _pairs(mlflow_id, news.params)
                connection.execute(insert(SqlParam).on_conflict_do_nothing(), values)
            if rows:
                # As text and tuples: SQLAlchemy's own half of the work is then done once.
                into = f"{SqlMetric.__tablename__} ({', '.join(_COLUMNS)})"
                places = ", ".join("?" * len(_COLUMNS))
                connection.exec_driver_sql(f"INSERT OR IGNORE INTO {into} VALUES ({places})", rows)
                latest = {row[0]: dict(zip(_COLUMNS, row, strict=True)) for row in rows}
                connection.execute(_newer(), list(latest.values()))
            if tags := {**news.tags, **news.seal}:
                statement = insert(SqlTag)
                changed = {"value": statement.excluded.value}
                statement = statement.on_conflict_do_update(["key", "run_uuid"], set_=changed)
                connection.execute(statement, _pairs(mlflow_id, tags))
            if news.status is not None:
                columns: dict[str, Any] = {"status": news.status}
                if news.status not in ("RUNNING", "SCHEDULED"):
                    columns["end_time"] = news.end_time
                mine = SqlRun.run_uuid == mlflow_id
                connection.execute(update(SqlRun).where(mine).values(**columns))


def _pairs(mlflow_id: str, values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"run_uuid": mlflow_id, "key": key, "value": value} for key, value in values.items()]


def _rows(mlflow_id: str, points: Sequence[Point]) -> list[tuple[Any, ...]]:
    """_COLUMNS of each value, by key and then step: the order of the table's own index."""
    return sorted(
        (
            key,
            milliseconds(point.unix_time),
            point.step,
            mlflow_id,
            0.0 if math.isnan(value) else max(-LARGEST, min(LARGEST, value)),
            math.isnan(value),
        )
        for point in points
        for key, value in point.values.items()
    )


def _newer() -> Any:
    """The statement that makes a row a metric's latest, unless a later one is."""
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric
    from sqlalchemy import tuple_
    from sqlalchemy.dialects.sqlite import insert

    statement = insert(SqlLatestMetric)
    new = statement.excluded
    changed = {name: new[name] for name in ("value", "timestamp", "step", "is_nan")}
    before = tuple_(SqlLatestMetric.step, SqlLatestMetric.timestamp, SqlLatestMetric.value)
    later = tuple_(new.step, new.timestamp, new.value) >= before
    return statement.on_conflict_do_update(["key", "run_uuid"], set_=changed, where=later)


def milliseconds(unix_time: float) -> int:
    """MLflow's unit of time."""
    return round(unix_time * 1000)
