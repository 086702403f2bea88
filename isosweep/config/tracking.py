"""What is tracked, and where."""

from dataclasses import dataclass

from isosweep.config.rules import one_of, positive


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """MLflow. `uri` null: SQLite at `<sweeps_dir>/mlflow.db`. `max_points` bounds how many steps
    of a run's training metrics are sent (held-out records are always sent, all of them)."""

    name: str
    uri: str | None = None
    experiment: str = "isosweep"
    interval_s: float = 10.0
    max_points: int = 200

    def __post_init__(self) -> None:
        one_of("tracking.name", self.name, ("mlflow", "none"))
        positive("tracking", self, "interval_s", "max_points")
