"""A sweep half done, in MLflow or W&B, whose libraries report nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracking.sweeps import Sweep
from tests.tracking.wandb_server import WandbServer

# W&B's key has so many digits.
KEY = "0123456789" * 4


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        **{"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"},
        # Set by the tracker where the user has not; restored after the test.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        **{"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"},
        **{f"WANDB_{each}_DIR": str(tmp_path / "wandb") for each in ("CACHE", "DATA", "ARTIFACT")},
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables, whose making takes longer than most tests."""
    import mlflow

    store = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{store}").search_experiments()
    return store


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A server of W&B's that is sent everything at once."""
    server = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_MODE", "online")
    yield server
    server.close()


@pytest.fixture
def in_mlflow(tmp_path: Path, empty_store: Path) -> Sweep:
    """Two runs, the first of them half done; a path that URIs must quote."""
    sweep = Sweep(tmp_path / "sweeps of mine").half_done()
    shutil.copy(empty_store, sweep.root / "mlflow.db")
    return sweep


@pytest.fixture
def in_wandb(tmp_path: Path, server: WandbServer) -> Sweep:
    """The same, of W&B."""
    sweep = Sweep(tmp_path / "sweeps of mine", name="wandb").half_done()
    sweep.server = server
    return sweep


@pytest.fixture(params=["mlflow", "wandb"])
def sweep(request: pytest.FixtureRequest) -> Sweep:
    """The same, of either."""
    sweep: Sweep = request.getfixturevalue(f"in_{request.param}")
    return sweep
