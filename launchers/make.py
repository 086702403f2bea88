"""The launcher that a config asks for."""

from typing import assert_never

from isosweep.config.sweep import SweepConfig
from isosweep.devices import visible_devices
from isosweep.launchers.launcher import Launcher


def make_launcher(config: SweepConfig) -> Launcher:
    """Where the runs of a sweep execute. Raises PreflightError where that is not available."""
    # Each imports what it alone needs: that of Slurm takes as long as to look at a thousand runs.
    match config.launcher.name:
        case "slurm":
            from isosweep.launchers.sbatch import require_slurm
            from isosweep.launchers.slurm import SlurmLauncher

            require_slurm()
            return SlurmLauncher(config)
        case "local":
            from isosweep.launchers.local import LocalLauncher

            devices = visible_devices() if config.hardware.device == "cuda" else None
            return LocalLauncher(devices=devices, per_run=config.hardware.devices_per_run)
        case "ray":
            from isosweep.launchers.ray import RayLauncher

            gpus = config.hardware.devices_per_run if config.hardware.device == "cuda" else 0
            limited = config.launcher.max_parallel is not None
            return RayLauncher(config.launcher.ray, gpus, places=limited)
        case "inline":
            from isosweep.launchers.inline import InlineLauncher

            return InlineLauncher()
        case _ as name:
            assert_never(name)
