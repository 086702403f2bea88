"""Where runs execute."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from isosweep.config.base import Settings, load
from isosweep.config.slurm import SlurmConfig
from isosweep.config.values import NonNegativeInt, Positive, PositiveInt


class RayConfig(Settings, group="launcher.ray"):
    """Resources of a job on its node. GPUs are those of a run."""

    cpus: PositiveInt = 8
    """CPU cores of a job."""
    mem_gb: PositiveInt = 32
    """Host memory of a job, in GB."""


class LauncherConfig(Settings, group="launcher"):
    """Where runs execute, and how many at once."""

    name: Literal["local", "slurm", "ray", "inline"]
    """`local`: this machine. `slurm`: jobs of a Slurm cluster. `ray`: jobs of a Ray
    cluster. `inline`: this process, one run after another."""
    max_parallel: PositiveInt | None = None
    """Most runs at once; null: as many as GPUs or CPU cores have room for (`local`), or all
    (`slurm`, `ray`)."""
    confirm_above: Positive | None = 100.0
    """Predicted device-hours above which a terminal asks before launching; null: never."""
    max_device_hours: Positive | None = None
    """Predicted device-hours above which nothing is launched; null: no limit."""
    max_retries: NonNegativeInt = 2
    """How often a failed run is tried again; one that refuses its weights or a score is not."""
    stop_grace_s: Positive = 60.0
    """Seconds for a stopped run to write a checkpoint."""
    stuck_after: Positive | None = None
    """Seconds without progress after which a run is ended and tried again; null: 20 planned steps
    or evaluations, whichever take longer, and at least half an hour. A worker that loads its model
    always has at least half an hour."""
    on_finish: str | None = None
    """Shell command that is run when a followed sweep ends, fails or is interrupted, with
    `{sweep_dir}`, `{status}`, `{report}`, `{done}` and `{failed}` filled in."""
    slurm: SlurmConfig = Field(default_factory=SlurmConfig)
    """What each job asks for, with `launcher=slurm`."""
    ray: RayConfig = Field(default_factory=RayConfig)
    """What each job asks for, with `launcher=ray`."""


def overridden(
    stored: LauncherConfig, asked: LauncherConfig, given: Sequence[str]
) -> LauncherConfig:
    """`stored`, with those of the settings named in `given` (`launcher.slurm.qos`) of `asked`.

    A launcher that is given itself counts with all its settings.
    """
    if "launcher" in given:
        return asked
    plain, wanted = stored.model_dump(), asked.model_dump()
    for name in given:
        if not name.startswith("launcher."):
            continue
        *groups, last = name.split(".")[1:]
        target: dict[str, Any] = plain
        source: dict[str, Any] = wanted
        for group in groups:
            target, source = target[group], source[group]
        if last in source:
            target[last] = source[last]
        else:
            # Taken away, as by `~launcher.slurm.additional.exclusive`.
            target.pop(last, None)
    return load(LauncherConfig, plain)
