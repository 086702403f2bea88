"""Schedulers that refuse: for now, for good, or without an answer."""

from pathlib import Path

import pytest

from isosweep.launchers.launcher import Order, Refused
from isosweep.launchers.starting import Backoff
from tests.launchers.fake import (
    FakeLauncher,
    finishes,
    follow,
    items_of,
    one_run,
    only_first,
    outcome,
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


def test_a_scheduler_that_is_down_for_long_is_asked_every_five_minutes() -> None:
    backoff, now = Backoff(), 0.0
    for _ in range(20):
        pause = backoff.refused(now)
        assert not backoff.over(now + 0.99 * pause)
        now += pause
        assert backoff.over(now)
    assert 0.8 * 300 <= pause <= 1.2 * 300


def test_a_final_refusal_is_a_failure_at_once(tmp_path: Path) -> None:
    final = Refused(reason="Invalid account", passing=False)
    launcher = FakeLauncher(finishes, refuse=[final])
    queue = queue_of(only_first(tmp_path), launcher, retries=5)
    follow(queue)
    assert queue.failed == {one_run(tmp_path).run_id: "refused: Invalid account"}
    assert outcome(one_run(tmp_path)) == "refused"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("there", [True, False])
def test_no_answer_is_no_refusal(there: bool, tmp_path: Path) -> None:
    launcher = FakeLauncher(finishes, refuse=[Refused(reason="", passing=True, unknown=True)])
    if there:
        submit_ = launcher.submit

        def taken_without_a_word(orders: list[Order]) -> list[object]:
            answers = submit_(orders)
            for order in orders:
                launcher._start(order)
            return list(answers)

        launcher.submit = taken_without_a_word  # type: ignore[method-assign,assignment]
    queue = queue_of(only_first(tmp_path), launcher, retries=0)
    follow(queue)
    assert not queue.failed
    assert submissions(tmp_path)[one_run(tmp_path).run_id] == (1 if there else 2)
