"""Sweeps of one command that differ in what their launcher is made of."""

from pathlib import Path

import pytest

from isosweep.modes import queues as module
from isosweep.modes.queues import Queues, Sweep
from isosweep.plan.study import resolve
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config
from tests.launchers.fake import FakeLauncher, finishes


def test_queues_on_the_same_places_of_this_machine_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchers = [FakeLauncher(finishes), FakeLauncher(finishes), FakeLauncher(finishes)]
    launchers[2].places = False
    order = iter(launchers)
    monkeypatch.setattr(module, "make_launcher", lambda config: next(order))
    monkeypatch.setattr(module, "_key", lambda config: config.budget)
    budgets = (6.4e9, 1.28e10, 2.56e10)
    studies = [resolve(make_config(*SMALL, f"budget={budget}")) for budget in budgets]
    shared = [
        Sweep(study=study, paths=SweepPaths(tmp_path / str(number), tmp_path / f"runs{number}"))
        for number, study in enumerate(studies)
    ]
    queues = Queues(lambda line: None)
    queues.add(shared)
    while queues.all[0].busy:
        queues.step()
        assert launchers[0].submitted
        assert not launchers[1].submitted, "both would be on the same devices"
        assert launchers[2].submitted, "a scheduler has places of its own"
    while queues.busy:
        queues.step()
    assert launchers[1].submitted
    assert not queues.failed
