"""`mode=import` leaves logs as they are, byte for byte, whether it reads or refuses them."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract import logs
from tests.contract.surface import refused

NAMED = {(n, seed): f"n{n}_s{seed}" for n, seed in logs.RUNS}


def _mlflow_file(root: Path) -> None:
    root.mkdir()
    logs.write_database(root / "mlflow.db")


def _mlflow_files(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        logs.write_mlflow(str(root))
    # As MLflow before 3 leaves it.
    (root / ".trash").rmdir()


# Of each kind: what writes it, the source below its directory, and what names a run.
KINDS: dict[str, tuple[Callable[[Path], None], str, str | None]] = {
    "csv": (logs.write_csv_logs, "", None),
    "jsonl": (logs.write_json_lines, "", None),
    "mlflow.db": (_mlflow_file, "mlflow.db", None),
    "mlruns": (_mlflow_files, "", None),
    "tensorboard": (logs.write_tensorboard, "", ""),
    "trainer_state": (logs.write_trainer_states, "", ""),
    "verl": (logs.write_consoles, "", ".log"),
}


def state(root: Path) -> dict[str, str]:
    """Every file and directory below `root` with a hash of what it has."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "directory"
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_is_as_it_was_after_an_import(kind: str, tmp_path: Path) -> None:
    write, inside, ending = KINDS[kind]
    source, cwd = tmp_path / "logs", tmp_path / "cwd"
    write(source)
    cwd.mkdir()
    more = []
    if ending is not None:
        names = {key: name + ending for key, name in NAMED.items()}
        more = [f"import.runs={logs.write_runs_table(tmp_path / 'runs.csv', names)}"]
    for path in (source, *source.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = state(source)
    _, records = logs.imported(cwd, f"import.files={source / inside}", *more)
    assert logs.steps_of(records) == {key: list(logs.STEPS) for key in logs.RUNS}
    logs.require_rewards(records)
    said = refused(
        "mode=import", f"import.files={source / inside}", "import.columns={reward:nothing}", cwd=cwd
    )
    assert "import.columns.reward=nothing" in said
    assert state(source) == before
    # Nor does a library leave anything where the command was started.
    assert [path.name for path in cwd.iterdir()] == ["sweeps"]


def test_values_that_are_only_in_the_log_of_a_database_are_read(tmp_path: Path) -> None:
    """A server that is running has its newest rows beside the database."""
    source = tmp_path / "logs"
    source.mkdir()
    logs.write_database(source / "mlflow.db")
    with closing(sqlite3.connect(source / "mlflow.db")) as server:
        server.execute("pragma journal_mode = wal")
        server.execute("pragma wal_autocheckpoint = 0")
        server.execute("update metrics set value = 0.9 where step = 100")
        server.commit()
        before = state(source)
        assert before.keys() >= {"mlflow.db-wal", "mlflow.db-shm"}
        _, records = logs.imported(tmp_path, f"import.files={source / 'mlflow.db'}")
        assert state(source) == before
    assert records[records["step"] == 100]["reward"].tolist() == [0.9] * len(logs.RUNS)


def test_a_database_of_an_older_mlflow_is_not_migrated(tmp_path: Path) -> None:
    source = tmp_path / "mlflow.db"
    logs.write_database(source)
    core = ("alembic_version", "experiments", "runs", "metrics", "params", "tags", "latest_metrics")
    with closing(sqlite3.connect(source)) as old:
        names = [
            name for (name,) in old.execute("select name from sqlite_master where type='table'")
        ]
        for name in set(names) - set(core):
            old.execute(f"drop table {name}")
        # The schema of MLflow 2.22.
        old.execute("update alembic_version set version_num = '0584bdc529eb'")
        old.commit()
    before = source.read_bytes()
    _, records = logs.imported(tmp_path, f"import.files={source}")
    assert len(logs.steps_of(records)) == len(logs.RUNS)
    logs.imported(tmp_path, f"import.files=sqlite:///{source}", name="address")
    assert source.read_bytes() == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, mode: str) -> None:
    source = tmp_path / "study.db"
    with closing(sqlite3.connect(source)) as study:
        study.execute(f"pragma journal_mode = {mode}")
        # Optuna's, which has a table of versions of the same name as MLflow's.
        study.executescript(
            "create table studies (study_id integer); create table trials (trial_id integer);"
            "create table alembic_version (version_num text);"
            "insert into alembic_version values ('v3.2.0.a')"
        )
    before = state(tmp_path)
    for address in (source, f"sqlite:///{source}"):
        for reader in ((), ("import.reader=mlflow",)):
            said = refused("mode=import", f"import.files={address}", *reader, cwd=tmp_path)
            assert "its tables are alembic_version, studies, trials" in said
    assert state(tmp_path) == before
