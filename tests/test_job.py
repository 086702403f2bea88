"""What the variables of a scheduler say of a worker."""

import pytest

from isosweep.errors import SettingError
from isosweep.job import Place, Task, task_of


def test_a_task_of_slurm_knows_its_job_its_start_and_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {
        "SLURM_JOB_ID": "17",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_PROCID": "1",
        "SLURM_STEP_NUM_TASKS": "4",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = Place(node=1, nodes=4)
    whole = Task(job_id="17", start="17.2", place=place, requeues=True)
    assert task_of("slurm") == whole
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "16")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert task_of("slurm").job_id == "16_3"
    # A run of this machine in somebody's allocation.
    assert task_of("local") == Task()
    assert task_of("slurm").place.leads is False


def test_a_node_that_is_not_told_its_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for wrong in ("", "2", "one"):
        monkeypatch.setenv("SLURM_PROCID", wrong)
        with pytest.raises(SettingError, match=f"SLURM_PROCID={wrong}: .* SLURM_STEP_NUM_TASKS=2"):
            task_of("slurm")
