"""What a Slurm cluster allows."""

import math
import re
import shutil
from collections.abc import Collection

from isosweep.commands import call
from isosweep.config.slurm import SlurmConfig
from isosweep.errors import PreflightError

# MaxArraySize where slurm.conf does not say (slurm.conf(5)).
_ARRAY_SIZE = 1001


def require_slurm() -> None:
    """Raise PreflightError where Slurm's commands are missing."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        remedy = "run on a login node of the cluster, or set launcher=local"
        raise PreflightError([(f"Slurm's {', '.join(missing)}", remedy)])


def array_size() -> int:
    """Tasks that one job array may have, Slurm's default where it does not say: MaxArraySize is
    one more than the highest index. 1: there are no arrays."""
    text = call(["scontrol", "show", "config"]).output
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
    return max(1, int(found[1])) if found else _ARRAY_SIZE


def longest_min(config: SlurmConfig) -> float:
    """Minutes that one job of `config` may take, in the strictest of its partitions."""
    if config.timeout_min is not None:
        return math.inf
    answer = call(["scontrol", "show", "partition", "--oneliner"])
    longest = longest_minutes(answer.output, config.partition)
    return math.inf if longest is None else longest


def longest_minutes(text: str, partitions: Collection[str] | None) -> float | None:
    """Minutes that a job may take in the strictest of `partitions`, or the default one, by
    `scontrol show partition --oneliner`; None where there is no limit, or no such partition."""
    longest = []
    for line in text.splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split())
        wanted = (
            fields.get("Default") == "YES"
            if partitions is None
            else (fields.get("PartitionName") in partitions)
        )
        limit = _minutes(fields.get("MaxTime", "")) if wanted else None
        longest += [] if limit is None else [limit]
    return min(longest, default=None)


def _minutes(text: str) -> float | None:
    """Minutes of Slurm's `days-hours:minutes:seconds`; None for UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
