"""What the variables of a scheduler say of a worker."""

import pytest

from isosweep.job import scheduled_job


def test_a_task_of_slurm_knows_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    # A worker that was started by hand: nobody starts it again.
    assert scheduled_job("slurm") is None
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert scheduled_job("slurm") == "17"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "16")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert scheduled_job("slurm") == "16_3"
    # A run of this machine in somebody's allocation.
    assert scheduled_job("local") is None
