"""What is tracked, and where."""

from typing import Literal

from isosweep.config.settings import settings
from isosweep.config.values import Positive, PositiveInt
from isosweep.errors import SettingError


@settings("tracking")
class TrackingConfig:
    """Where runs are tracked, and how closely."""

    name: Literal["mlflow", "wandb", "none"]
    """Where: `mlflow`, `wandb` (Weights & Biases) or `none`."""
    uri: str | None = None
    """MLflow's tracking URI; null: SQLite at `<sweeps_dir>/mlflow.db`. W&B's server; null: what
    WANDB_BASE_URL says, else wandb.ai."""
    experiment: str = "isosweep"
    """Name of the MLflow experiment, or of the W&B project."""
    entity: str | None = None
    """W&B's user or team; null: the key's own."""
    offline: bool | None = None
    """Whether W&B's directories are only written, in `<sweep_dir>/wandb`, for `wandb sync`; null:
    as WANDB_MODE says, else where this machine has no key."""
    interval_s: Positive = 10.0
    """Seconds between two looks at the runs."""
    max_points: PositiveInt = 200
    """Steps of a run's training metrics that are sent, at most; held-out records are all sent."""

    def __post_init__(self) -> None:
        for name in ("entity", "offline"):
            value = getattr(self, name)
            if self.name != "wandb" and value is not None:
                raise SettingError(f"tracking.{name}", value, "is W&B's", "tracking=wandb")
