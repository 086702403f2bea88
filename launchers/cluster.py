"""What a Slurm cluster allows, asked once where it is needed."""

import math
import shutil
from functools import cached_property

from isosweep.commands import call
from isosweep.config.slurm import SlurmConfig
from isosweep.errors import PreflightError
from isosweep.launchers.squeue import array_size, cluster_name, longest_minutes

# MaxArraySize where slurm.conf does not say (slurm.conf(5)).
_ARRAY_SIZE = 1001


def require_slurm() -> None:
    """Raise PreflightError where Slurm's commands are missing."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        remedy = "run on a login node of the cluster, or set launcher=local"
        raise PreflightError([(f"Slurm's {', '.join(missing)}", remedy)])


class Cluster:
    """Limits of the cluster that jobs of `config` go to; Slurm's defaults where it does not say."""

    def __init__(self, config: SlurmConfig) -> None:
        self._config, self._text = config, ""

    @property
    def name(self) -> str | None:
        """What the cluster is called, whose ids its jobs have; None where it does not say."""
        return cluster_name(self._shown())

    @cached_property
    def array_size(self) -> int:
        """Tasks that one job array may have; 1: there are no arrays."""
        return array_size(self._shown()) or _ARRAY_SIZE

    def _shown(self) -> str:
        """The cluster's configuration, asked for until it is told."""
        if not self._text:
            self._text = call(["scontrol", "show", "config"], self._config.command_timeout_s).output
        return self._text

    @cached_property
    def longest_min(self) -> float:
        """Minutes that one job may take, in the strictest of its partitions."""
        if self._config.timeout_min is not None:
            return math.inf
        command = ["scontrol", "show", "partition", "--oneliner"]
        answer = call(command, self._config.command_timeout_s)
        longest = longest_minutes(answer.output, self._config.partition)
        return math.inf if longest is None else longest
