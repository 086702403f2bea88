"""What the variables of a scheduler say of a worker."""

import pytest

from isosweep.job import Task, task_of


def test_a_task_of_slurm_knows_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert task_of("slurm") == Task(job_id="17", requeues=True)
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "16")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert task_of("slurm").job_id == "16_3"
    # A run of this machine in somebody's allocation.
    assert task_of("local") == Task()
