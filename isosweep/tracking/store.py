"""An MLflow store: opened when it is first used, and anew where it was removed since.

MLflow itself is imported by the first use: it costs seconds, and planning must not pay them.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from isosweep.config.trust import others_may_write, require_own
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan
from isosweep.reserved import ARTIFACTS, MLFLOW
from isosweep.tracking.artifacts import Artifacts
from isosweep.tracking.faults import StoreError, described, quiet, store_name
from isosweep.tracking.view import KIND_TAG, sweep_filter

# MLflow's defaults, of 7 retries with 120 s each, would hold up the end of a sweep for a quarter
# of an hour; these come to less than `background.JOIN_S`, and the next sync tries again anyway.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "25",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    # A line for every run that ends.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# Seconds that SQLite waits for another writer, as MLflow has it wait.
BUSY_S = 20
# What MLflow's documentation of backend stores lists beside SQLite.
DATABASES = ("postgresql", "mysql", "mssql")
# Seconds to wait for another process that makes MLflow's tables: about 5 s of a core, which a busy
# machine stretches; less than `background.JOIN_S` too.
_MAKING_S = 45
# In the place of a file's identity, which no file has.
_NOT_OPENED = (-1, -1)


class Store:
    """The store at `uri`, and the experiment in it, which is made if missing.

    `client` and `experiment_id` are there once `open` has returned.
    """

    client: Any
    experiment_id: str

    def __init__(self, uri: str | None, experiment: str, sweeps_dir: Path) -> None:
        """`uri`: MLflow's; None: SQLite in `sweeps_dir`."""
        self._asked = uri
        self.uri = uri or f"sqlite:///{sweeps_dir / MLFLOW}"
        self.name = store_name(self.uri)
        self._experiment = experiment
        self._sweeps_dir = sweeps_dir
        self._file: tuple[int, int] | None = _NOT_OPENED
        self._openings = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """What goes wrong within is raised as StoreError, and printed by nobody else: an address
        that somebody else may have said is sent nothing, least of all what proves who asks."""
        try:
            require_own({"tracking.uri": self._asked})
        except SettingError as error:
            raise StoreError(str(error)) from None
        if self._asked is None and "?" in str(self._sweeps_dir):
            raise StoreError("the address of a database ends at a question mark: tracking.uri=URI")
        try:
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            # Before its loggers are silenced: the import makes them.
            import mlflow  # noqa: F401

            with quiet():
                yield
        except Exception as error:
            raise StoreError(f"{self.name}: {described(error, self.uri)}") from error

    def open(self) -> bool:
        """Make what is missing; whether this is another store than at the last call."""
        if self._file == self._identity():
            return False
        uri = self._spelling()
        if self._database is None:
            self._connect(uri)
        else:
            if not self._is_beside_runs:
                self._database.parent.mkdir(parents=True, exist_ok=True)
            elif not self._database.parent.is_dir():
                # It was there, and is not made anew while it is away.
                raise FileNotFoundError(f"unable to open database file {self._database}")
            # Two processes that make MLflow's tables at once both fail.
            with FileLock(self._database.with_suffix(".lock"), timeout=_MAKING_S):
                _require_writable(self._database)
                self._connect(uri)
        self._file = self._identity()
        self._openings += 1
        return True

    def found(self, plan: Plan) -> bool:
        """Whether the store is there, and its experiment has runs of the sweep; makes nothing."""
        if self._database is not None and not self._database.is_file():
            return False
        import mlflow

        self.client = mlflow.MlflowClient(tracking_uri=self.uri)
        for name in (self._name_here(), self._experiment):
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                continue
            self.experiment_id = str(experiment.experiment_id)
            if self.client.search_runs([self.experiment_id], sweep_filter(plan), max_results=1):
                return True
        return False

    @property
    def _is_beside_runs(self) -> bool:
        """Whether it lies in `sweeps_dir`, and so moves with the runs."""
        return self._database is not None and self._database.parent == self._sweeps_dir

    @property
    def _artifacts(self) -> Path:
        return self._sweeps_dir / ARTIFACTS

    def artifacts_of(self, mlflow_id: str) -> Artifacts:
        """The files of a run. Raises OSError where the database cannot be seen."""
        file = self._database
        beside = self._artifacts if self._is_beside_runs else None
        shared = file is not None and others_may_write(file) is not None
        return Artifacts(self.client, mlflow_id, beside, shared)

    def _name_here(self) -> str:
        """What the experiment is called: with the directory's name where the store was moved or
        copied with the runs. What is there then keeps its artifacts where it was made, which no
        call of MLflow's changes; a new one is filled from the files."""
        found = self.client.get_experiment_by_name(self._experiment)
        if found is None or not self._is_beside_runs:
            return self._experiment
        parts = urlsplit(found.artifact_location)
        known = Path(unquote(parts.path))
        if parts.scheme != "file" or known.name != ARTIFACTS:
            return self._experiment
        # Hosts may call one directory by several names.
        with suppress(OSError):
            if known.parent.samefile(self._sweeps_dir):
                return self._experiment
        return f"{self._experiment} in {self._sweeps_dir}"

    def emptied(self) -> None:
        """It does not have what it had: at the next `open` the experiment is looked for again."""
        self._file = _NOT_OPENED

    @property
    def served(self) -> bool:
        """Whether a server answers for it, which then has pages."""
        return self.uri.startswith(("http://", "https://"))

    def show(self, tags: Mapping[str, str]) -> None:
        """Give the experiment the tags that it lacks; what it has as its view is its user's."""
        known = self.client.get_experiment(self.experiment_id).tags
        for key, value in tags.items():
            if known.get(key) != value and (key != KIND_TAG or key not in known):
                self.client.set_experiment_tag(self.experiment_id, key, value)

    @property
    def _database(self) -> Path | None:
        """The file of a SQLite store."""
        scheme, _, rest = self.uri.partition(":///")
        path = rest.partition("?")[0]
        is_file = scheme.startswith("sqlite") and path and not path.startswith((":", "file:"))
        return Path(path) if is_file else None

    def _identity(self) -> tuple[int, int] | None:
        """The database's own file, which another of its name is not; None for other stores."""
        if self._database is None:
            return None
        try:
            stat = self._database.stat()
        except FileNotFoundError:
            return (0, 0)
        return stat.st_dev, stat.st_ino

    def _spelling(self) -> str:
        """The URI, written otherwise each time that the file is another.

        MLflow keeps a connection for each URI for good, and with it the file that was removed.
        """
        if self._database is None:
            return self.uri
        scheme, _, rest = self.uri.partition(":///")
        path, mark, options = rest.partition("?")
        folder, slash, file = path.rpartition("/")
        return f"{scheme}:///{folder}{slash}{'./' * self._openings}{file}{mark}{options}"

    def _connect(self, uri: str) -> None:
        import mlflow

        if uri.partition(":")[0].partition("+")[0] in DATABASES:
            _require_answer(uri)
        self.client = mlflow.MlflowClient(tracking_uri=uri)
        self.experiment_id = self._find_experiment()

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = self._name_here()
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            # A server knows where it keeps artifacts; without one they lie beside the database.
            beside = self._artifacts.as_uri() if self._database else None
            try:
                return str(self.client.create_experiment(name, artifact_location=beside))
            except MlflowException:
                # Another process may have made it since.
                experiment = self.client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        return str(experiment.experiment_id)


def is_gone(error: BaseException) -> bool:
    """Whether the store answers that it does not have what it had, or that a user deleted it."""
    code = getattr(error, "error_code", None)
    return code == "RESOURCE_DOES_NOT_EXIST" or "must be in the 'active' state" in str(error)


def _require_writable(database: Path) -> None:
    """Raise sqlite3's error where nothing can be written: MLflow would ask ten times over 100 s."""
    with closing(sqlite3.connect(database, timeout=BUSY_S)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def _require_answer(uri: str) -> None:
    """Raise SQLAlchemy's error where the database does not answer, for the same reason."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool)
    with engine.connect():
        pass
