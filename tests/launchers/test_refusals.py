"""Schedulers that refuse: for now, for good, or without an answer."""

from pathlib import Path

import pytest

from isosweep.launchers.launcher import Observed, Refused
from tests.launchers.fake import (
    FakeLauncher,
    attempts,
    finishes,
    follow,
    items_of,
    one_run,
    only_first,
    queue_of,
    the_plan,
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.launchers.queue._FIRST_PAUSE_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_refusal_that_passes_is_told_once_and_tried_again(tmp_path: Path) -> None:
    down = Refused(reason="Unable to contact slurm controller", passing=True)
    said: list[str] = []
    launcher = FakeLauncher(finishes, refuse=[down] * 9)
    queue = queue_of(items_of(tmp_path), launcher, notice=said.append)
    follow(queue)
    assert len(launcher.submitted) == len(the_plan().runs)
    assert set(attempts(tmp_path).values()) == {1}
    assert len(said) == 2
    assert "did not take 3 runs: Unable to contact slurm controller" in said[0]
    assert "takes runs again" in said[1]


@pytest.mark.usefixtures("impatient")
def test_a_refusal_in_other_words_is_tried_three_times(tmp_path: Path) -> None:
    words = Refused(reason="Invalid user id", passing=False)
    queue = queue_of(only_first(tmp_path), FakeLauncher(finishes, refuse=[words] * 2))
    follow(queue)
    assert not queue.failed
    queue = queue_of(items_of(tmp_path)[1:], FakeLauncher(finishes, refuse=[words] * 6))
    follow(queue)
    assert set(queue.failed.values()) == {"refused: Invalid user id"}
    assert set(attempts(tmp_path).values()) == {1}


def test_what_got_no_answer_is_looked_for_before_it_is_submitted_again(tmp_path: Path) -> None:
    launcher = FakeLauncher(finishes, gone=Observed(status="gone"))
    launcher.submit = lambda orders: [None] * len(orders)  # type: ignore[method-assign]
    queue = queue_of(only_first(tmp_path), launcher, retries=0)
    for _ in range(2):
        queue.step()
    del launcher.submit
    follow(queue)
    assert not queue.failed
    assert attempts(tmp_path)[one_run(tmp_path).run_id] == 2
