"""What a Slurm cluster allows, asked once where it is needed."""

import math
import re
import shutil
from functools import cached_property

from isosweep.commands import call
from isosweep.config.slurm import SlurmConfig
from isosweep.errors import PreflightError
from isosweep.launchers.squeue import longest_minutes

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
        return self._told("ClusterName")

    @cached_property
    def array_size(self) -> int:
        """Tasks that one job array may have: MaxArraySize is one more than the highest index. 1:
        there are no arrays."""
        told = self._told("MaxArraySize") or ""
        return max(1, int(told)) if told.isdecimal() else _ARRAY_SIZE

    def _told(self, setting: str) -> str | None:
        """A setting of the cluster's configuration, which is asked for until it is told."""
        if not self._text:
            self._text = call(["scontrol", "show", "config"]).output
        found = re.search(rf"^{setting}\s*=\s*(\S+)", self._text, re.MULTILINE)
        return found[1] if found else None

    @cached_property
    def longest_min(self) -> float:
        """Minutes that one job may take, in the strictest of its partitions."""
        if self._config.timeout_min is not None:
            return math.inf
        command = ["scontrol", "show", "partition", "--oneliner"]
        answer = call(command)
        longest = longest_minutes(answer.output, self._config.partition)
        return math.inf if longest is None else longest
