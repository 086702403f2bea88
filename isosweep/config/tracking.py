"""What is tracked, and where."""

from typing import Literal

from isosweep.config.base import Settings
from isosweep.config.values import Positive, PositiveInt
from isosweep.errors import SettingError


class TrackingConfig(Settings, group="tracking"):
    """Where results are shown: MLflow or Weights & Biases."""

    name: Literal["mlflow", "wandb", "none"]
    """`mlflow`, `wandb` (Weights & Biases), or `none`."""
    uri: str | None = None
    """MLflow's tracking URI; null: SQLite at `<sweeps_dir>/mlflow.db`. Or W&B's server; null:
    WANDB_BASE_URL, else wandb.ai."""
    experiment: str = "isosweep"
    """MLflow experiment, or W&B project."""
    entity: str | None = None
    """W&B user or team; null: the owner of the key."""
    offline: bool | None = None
    """Only write W&B's files, in `<sweep_dir>/wandb`, for a later `wandb sync`; null: as WANDB_MODE
    says, else if this machine has no key."""
    interval_s: Positive = 10.0
    """Seconds between two updates."""
    max_points: PositiveInt = 200
    """Most steps of a run's training metrics that are sent; all held-out records are sent."""

    def _check(self) -> None:
        for name in ("entity", "offline"):
            value = getattr(self, name)
            if self.name != "wandb" and value is not None:
                raise SettingError(f"tracking.{name}", value, "is W&B's", "tracking=wandb")
