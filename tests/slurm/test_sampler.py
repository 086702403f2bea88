"""What counts as a contradiction between isosweep and Slurm."""

import pytest

from isosweep.plan.tally import Standing
from tests.slurm.sampler import FINAL_ALIVE, TWO_JOBS, contradiction


@pytest.mark.parametrize(
    ("standing", "states", "wrong"),
    [
        (Standing.RUNNING, ["RUNNING"], None),
        (Standing.QUEUED, ["PENDING"], None),
        (Standing.DONE, [], None),
        # The old job leaves, the new one waits.
        (Standing.QUEUED, ["COMPLETING", "PENDING"], None),
        (Standing.RUNNING, ["COMPLETING"], None),
        (Standing.DONE, ["RUNNING"], FINAL_ALIVE),
        (Standing.CANCELLED, ["PENDING"], FINAL_ALIVE),
        (Standing.INTERRUPTED, ["REQUEUED"], FINAL_ALIVE),
        (Standing.RUNNING, ["RUNNING", "PENDING"], TWO_JOBS),
        (Standing.RUNNING, [], "at work, and no job is alive"),
        (Standing.RUNNING, ["PENDING"], "running, and its job waits"),
        (Standing.QUEUED, ["RUNNING"], "queued, and its job runs"),
    ],
)
def test_status_and_slurm_contradict_each_other(
    standing: Standing, states: list[str], wrong: str | None
) -> None:
    assert contradiction(standing, states) == wrong
