"""A real Slurm for the net."""

from tests.slurm.conftest import slurm_cluster, slurm_environment

__all__ = ["slurm_cluster", "slurm_environment"]
