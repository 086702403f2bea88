"""What each job of `launcher=ray` asks for."""

from isosweep.config.settings import settings
from isosweep.config.values import PositiveInt


@settings("launcher.ray")
class RayConfig:
    """Resources of a job on its node. GPUs are those of a run."""

    cpus: PositiveInt = 8
    """CPU cores of a job."""
    mem_gb: PositiveInt = 32
    """Host memory of a job, in GB."""
