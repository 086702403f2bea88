"""One store for several processes: made at once, or behind a server, which comes and goes."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from isosweep.tracking.background import BackgroundTracker
from isosweep.tracking.faults import StoreError
from tests.conftest import in_ci, missing
from tests.runs import wait_for
from tests.tracking.servers import MlflowServer, Postgres, postgres_commands
from tests.tracking.sweeps import EVAL_STEPS, Sweep, set_state, sync_command, write_steps

# Servers take long to start.
pytestmark = [pytest.mark.mlflow, pytest.mark.slow]


def test_several_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            sync_command(tmp_path, directory=name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # One sweep twice, and another.
        for name in ("a", "a", "b")
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert outputs == ["", "", ""], "MLflow's own INFO lines are kept out of the terminal"
    for name in ("a", "b"):
        assert len(Sweep(tmp_path, directory=name).stored()) == 3


@pytest.fixture(scope="module", params=in_ci(("sqlite", "postgresql"), "postgresql"))
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MlflowServer]:
    """An `mlflow server`, in which each test has an experiment."""
    with tempfile.TemporaryDirectory(prefix="pg") as short:
        postgres = None
        if request.param == "postgresql":
            commands = postgres_commands()
            if commands is None or find_spec("psycopg2") is None:
                missing("postgres", "PostgreSQL, runuser or psycopg2 is not installed")
            # A socket's path is at most 107 characters, and its user is another.
            Path(short).chmod(0o755)
            postgres = Postgres(Path(short) / "data", commands)
        root = tmp_path_factory.mktemp("server")
        server = MlflowServer(root, postgres.uri if postgres else None)
        try:
            server.start()
            yield server
        finally:
            server.stop()
            if postgres is not None:
                postgres.stop()


def test_a_server_is_used_over_http(untracked: Sweep, server: MlflowServer) -> None:
    sweep = untracked
    sweep.config = replace(sweep.config, uri=server.address, experiment="used")
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    sweep.tracker().sync()
    assert sweep.histories() == before
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    set_state(sweep.runs[0], "failed", 20, reason="out of memory")
    tracker.sync()
    set_state(sweep.runs[0], "running", 20, attempt=2)
    tracker.sync()
    figure = sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    tracker.finish("FINISHED", [figure], None)
    stored = sweep.stored()
    assert (stored["parent"].info.status, sweep.child().info.status) == ("FINISHED", "RUNNING")
    [artifact] = sweep.client().list_artifacts(stored["parent"].info.run_id, "figures")
    assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}


def test_a_server_stops_hangs_and_comes_back(
    untracked: Sweep,
    server: MlflowServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sweep, said = untracked, list[str]()
    secret = server.address.replace("//", "//me:secret@")
    sweep.config = replace(sweep.config, uri=secret, experiment="stopped")
    background = BackgroundTracker(sweep.tracker(), 0.2, said.append)
    reader = Sweep(sweep.root, uri=server.address, experiment="stopped")
    wait_for(lambda: _there(reader))
    server.stop()
    write_steps(sweep.runs[0], range(21, 31))
    wait_for(lambda: len(said) == 1)
    server.start()
    wait_for(lambda: len(said) == 2)
    # Only while it hangs: a server that has just begun may take as long for its first answers.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    server.pause(still=True)
    write_steps(sweep.runs[0], range(31, 41))
    set_state(sweep.runs[0], "finished", 40)
    wait_for(lambda: len(said) == 3)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "25")
    server.pause(still=False)
    wait_for(lambda: len(said) == 4)
    background.close("FINISHED", [], None)
    assert said == [
        f"tracking: {server.address}: it does not answer (Connection refused); "
        "the runs go on, and the view catches up later",
        f"tracking: {server.address}: it works again and is up to date",
        f"tracking: {server.address}: it does not answer in time; "
        "the runs go on, and the view catches up later",
        f"tracking: {server.address}: it works again and is up to date",
    ]
    assert reader.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert reader.steps("train/loss") == list(range(2, 41, 2))
    assert reader.child().info.status == "FINISHED"
    assert capfd.readouterr() == ("", "")


def _there(reader: Sweep) -> bool:
    experiment = reader.client().get_experiment_by_name("stopped")
    return experiment is not None and len(reader.stored()) == 3


@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
def test_a_database_behind_the_server_is_emptied_or_read_only(
    untracked: Sweep, server: MlflowServer
) -> None:
    sweep = untracked
    sweep.config = replace(sweep.config, uri=server.address, experiment="emptied")
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    postgres = Postgres.__new__(Postgres)
    postgres.root = Path(server.backend.partition("host=")[2])
    postgres._commands = postgres_commands() or Path()
    server.stop()
    postgres.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    server.start()
    tracker.sync()
    assert sweep.histories() == before
    frozen = "ALTER DATABASE mlflow SET default_transaction_read_only = {}"
    postgres.execute(frozen.format("on"), "postgres")
    server.stop()
    server.start()
    write_steps(sweep.runs[0], range(21, 41))
    with pytest.raises(StoreError, match=r"read-only|HTTP 50"):
        tracker.sync()
    postgres.execute(frozen.format("off"), "postgres")
    server.stop()
    server.start()
    tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
