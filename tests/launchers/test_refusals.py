"""Schedulers that refuse: for now, for good, or without an answer."""

from pathlib import Path

import pytest

from isosweep.launchers.launcher import Refused
from tests.launchers.fake import (
    FakeLauncher,
    finishes,
    follow,
    items_of,
    one_run,
    only_first,
    queue_of,
    submissions,
    the_plan,
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.launchers.starting._FIRST_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_refusal_that_passes_is_told_once_and_tried_again(tmp_path: Path) -> None:
    down = Refused(reason="Unable to contact slurm controller", passing=True)
    said: list[str] = []
    launcher = FakeLauncher(finishes, refuse=[down] * 9)
    queue = queue_of(items_of(tmp_path), launcher, notice=said.append)
    follow(queue)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert set(submissions(tmp_path).values()) == {1}
    assert len(said) == 2
    assert "did not take 3 runs: Unable to contact slurm controller" in said[0]
    assert "takes runs again" in said[1]


@pytest.mark.usefixtures("impatient")
def test_no_answer_is_no_refusal(tmp_path: Path) -> None:
    launcher = FakeLauncher(finishes, refuse=[Refused(reason="", passing=True, unknown=True)])
    queue = queue_of(only_first(tmp_path), launcher, retries=0)
    follow(queue)
    assert not queue.failed
    assert submissions(tmp_path)[one_run(tmp_path).run_id] == 2
