"""What a site sets for all Slurm jobs of its users, by variables of sbatch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isosweep.config.sweep import SweepConfig

# Settings that sites export: without them sbatch may refuse the job, or charge somebody else. Of
# sbatch's other variables none is heeded (`isosweep.commands`): they would change what is planned.
_OF_SITE = ("account", "partition", "qos")


def with_site(
    config: SweepConfig, environment: Mapping[str, str]
) -> tuple[SweepConfig, dict[str, str]]:
    """The config with sbatch's variables of `environment` in the place of settings that are not
    given, and the value of each that was taken, by the variable's name."""
    slurm, taken = config.launcher.slurm, {}
    for option in (*_OF_SITE, "reservation"):
        value = environment.get(f"SBATCH_{option.upper()}")
        if not value or getattr(slurm, option, None) or option in slurm.additional:
            continue
        given: Any = value.split(",") if option == "partition" else value
        if option in _OF_SITE:
            slurm = replace(slurm, **{option: given})
        else:
            slurm = replace(slurm, additional={**slurm.additional, option: given})
        taken[f"SBATCH_{option.upper()}"] = value
    return replace(config, launcher=replace(config.launcher, slurm=slurm)), taken
