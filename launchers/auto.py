"""`launcher=auto`: Slurm where there is one, else this machine."""

import shutil
from dataclasses import replace

from isosweep.commands import ask
from isosweep.config.sweep import SweepConfig

# A controller that is well answers in milliseconds; a command that finds none gives up after 9 s
# (Slurm 22.05), or waits for a file system.
_TIMEOUT_S = 10.0
_COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")


def settled(config: SweepConfig) -> tuple[SweepConfig, str]:
    """The config with a launcher instead of `auto`, and a line that says which, and why.

    Raises SettingError where another setting does not go with it.
    """
    no_slurm = _no_slurm()
    if no_slurm is None:
        launcher, why = replace(config.launcher, name="slurm"), "its controller answers"
    else:
        launcher, why = replace(config.launcher, name="local"), no_slurm
    line = f"launcher=auto takes {launcher.name}: {why}"
    return replace(config, launcher=launcher), line


def _no_slurm() -> str | None:
    """Why Slurm is not to be had here; None where it is."""
    missing = [name for name in _COMMANDS if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} here"
    answer = ask("scontrol ping", _TIMEOUT_S)
    # "Slurmctld(primary) at host is UP", a line for each controller (scontrol(1)).
    if " UP" in answer.output:
        return None
    return f"Slurm's controller does not answer ({answer.words})"
