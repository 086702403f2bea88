"""What is tracked, and where."""

from typing import Literal

from isosweep.config.settings import settings
from isosweep.config.values import Positive, PositiveInt


@settings("tracking")
class TrackingConfig:
    """Where runs are tracked, and how closely."""

    name: Literal["mlflow", "none"]
    """The tracking store: `mlflow` or `none`."""
    uri: str | None = None
    """MLflow's tracking URI; null: SQLite at `<sweeps_dir>/mlflow.db`."""
    experiment: str = "isosweep"
    """Name of the MLflow experiment."""
    interval_s: Positive = 10.0
    """Seconds between two looks at the runs."""
    max_points: PositiveInt = 200
    """Steps of a run's training metrics that are sent, at most; held-out records are all sent."""
