"""A sweep half done, and no reports to MLflow or W&B."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracking.sweeps import Sweep, half_done
from tests.tracking.wandb_server import WandbServer


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    # Set by the tracker where the user has not; restored after the test.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("CACHE", "DATA", "ARTIFACT"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "of wandb"))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables, whose making takes longer than most tests."""
    import mlflow

    store = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{store}").search_experiments()
    return store


@pytest.fixture
def untracked(tmp_path: Path) -> Sweep:
    """Two runs, the first of them half done; a path that URIs must quote."""
    return half_done(tmp_path / "sweeps of mine")


@pytest.fixture
def sweep(untracked: Sweep, empty_store: Path) -> Sweep:
    """The same, with a store that has tables and nothing in them."""
    shutil.copy(empty_store, untracked.root / "mlflow.db")
    return untracked


# W&B's key has so many digits.
KEY = "0123456789" * 4


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A server of W&B's that is sent everything at once."""
    server = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_MODE", "online")
    yield server
    server.close()
