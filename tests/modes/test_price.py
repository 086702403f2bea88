"""What a sweep is predicted to take is agreed to on a terminal, before anything is launched."""

import re
from pathlib import Path
from unittest import mock

import pytest

from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.dispatch import Planned, prepare_all
from isosweep.modes.price import confirm, hours_left, require_affordable
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.sweeps import sweep_paths
from isosweep.plan.cells import predicted
from isosweep.plan.study import Study, resolve
from isosweep.store.attempts import Status
from tests.commands import in_process
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import ended, printed, reported, submitted, sweep_in
from tests.modes.looked_after import terminal as console

DEAR = (*SMALL, "budget=1e10", "tracking=none", "launcher.confirm_above=1e-6")
LLM = ("model=qwen-1.5b", "task=sort_instruct", "grid.num_generations=[32,64]")


def test_a_yes_launches_and_neither_a_no_nor_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.modes.price._is_terminal", lambda stream: True)
    shown = console()
    monkeypatch.setattr(shown, "input", lambda *_, **__: "y")
    assert confirm([study(*DEAR)], shown) == 0
    monkeypatch.setattr(shown, "input", lambda *_, **__: "n")
    with pytest.raises(IsosweepError, match="nothing was launched"):
        confirm([study(*DEAR)], shown)
    monkeypatch.setattr(shown, "input", mock.Mock(side_effect=KeyboardInterrupt))
    assert confirm([study(*DEAR)], shown) == INTERRUPTED
    assert printed(shown).endswith("\nnothing was launched\n")


def study(*overrides: str) -> Study:
    return resolve(make_config(*overrides))


def test_without_a_terminal_the_price_is_said(tmp_path: Path) -> None:
    dear = (*LLM, "budget=2e19", f"sweeps_dir={tmp_path}")
    unlimited = (*dear, "launcher.confirm_above=null")
    said = []
    for asked in (dear, (*SMALL, "budget=1e10"), (*dear, "confirm=true"), unlimited):
        shown = console()
        assert confirm([study(*asked)], shown) == 0
        said.append(printed(shown))
    assert re.fullmatch(
        r"a predicted device time of \d+ h \(\d+ to \d+\), more than launcher.confirm_above=100; "
        r"not on a terminal: launched without asking\n",
        said[0],
    )
    assert said[1:] == [""] * 3


def test_what_is_trained_does_not_count(tmp_path: Path) -> None:
    one = study(*SMALL, "budget=1e10", f"sweeps_dir={tmp_path}")
    first, *_ = one.plan.runs
    whole = hours_left(one)
    paths = sweep_paths(one).run(first.run_id)
    paths.root.mkdir(parents=True)
    reported(submitted(paths), Status.INTERRUPTED, 0.25, first)
    spared = predicted(first.seconds) / 3600 * 0.25
    assert hours_left(one) == pytest.approx(whole - spared)
    # A run that two jobs need counts once.
    assert hours_left(one, one) == hours_left(one)


LIMIT = "launcher.max_device_hours"


def test_a_limit_is_refused_with_one_that_would_do() -> None:
    rule = rf"{LIMIT}=0.001: the rest of the plan is predicted to take a device time of "
    with pytest.raises(SettingError, match=rule) as caught:
        require_affordable(study(*LLM, "budget=1e19", f"{LIMIT}=0.001"))
    offer, *_ = caught.value.nearest.split(", or ")
    require_affordable(study(*LLM, "budget=1e19", offer))


def test_a_search_is_priced_by_the_dearest_that_it_may_choose(tmp_path: Path) -> None:
    budget, place = "budget=[6.4e9,1.28e10]", f"sweeps_dir={tmp_path}"
    whole = resolve(make_config(*SMALL, budget, place))
    runs = whole.plan.runs
    hours = sorted(predicted(run.seconds) * whole.config.devices_taken / 3600 for run in runs)

    def priced(*search: str) -> float:
        return hours_left(resolve(make_config(*SMALL, budget, place, *search)))

    assert priced() == priced("search=frontier") == pytest.approx(sum(hours))
    assert priced("search=frontier", "search.max_compute=1.28e10") == pytest.approx(hours[-1])
    assert priced("search=frontier", "search.max_compute=6.4e9") == pytest.approx(hours[-1] / 2)
    assert priced("search=frontier", "search.max_compute=1e12") == pytest.approx(sum(hours))


PRICED = "hardware.dollars_per_hour=36"


def told(*overrides: str, within: Path) -> str:
    return " ".join(in_process(overrides, within).stdout.split())


def test_a_stored_sweep_takes_the_price_that_is_typed(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    ended(sweep, share=0.5)
    ask = ("mode=status", f"sweep={sweep.paths.root}")
    assert "training so far: 50 s " in told(*ask, within=tmp_path)
    assert "training so far: 50 s, $0.50 " in told(*ask, PRICED, within=tmp_path)
    limited = ("mode=resume", ask[1], "launcher.max_device_hours=1e-6")
    refused = in_process((*limited, PRICED), tmp_path)
    assert refused.returncode == 2
    price = r"the rest of the plan is predicted to take a device time of .*\$"
    assert re.search(price, " ".join(refused.stderr.split()))


def test_a_limit_holds_for_a_whole_multirun_and_it_is_asked_for_once(tmp_path: Path) -> None:
    common = (*SMALL, "budget=1e10", f"sweeps_dir={tmp_path}", "mode=run")
    limit = f"launcher.max_device_hours={hours_left(study(*common)) * 1.5}"
    for job in (limited := [make_config(*common, f"grid.seeds=[{s}]", limit) for s in (0, 1)]):
        prepare_all([job])
    with pytest.raises(SettingError, match="predicted to take a device time"):
        prepare_all(limited)
    jobs = prepare_all([make_config(*common, f"grid.seeds=[{seed}]") for seed in (0, 1)])
    assert [len(job.priced) for job in jobs if isinstance(job, Planned)] == [2, 0]


def test_jobs_of_one_directory_are_refused_before_the_first_starts(tmp_path: Path) -> None:
    common = (*SMALL, "budget=1e10", f"sweeps_dir={tmp_path}", "mode=run")
    for one, other, rule in (
        ("search=grid", "search=frontier", "differ in how its runs are chosen"),
        ("sweep=a", f"sweep={tmp_path}/a grid.seeds=[1]", "the sweeps of these jobs are several"),
    ):
        with pytest.raises(SettingError, match=rule):
            prepare_all([make_config(*common, *job.split()) for job in (one, other)])
    late = make_config(*common, "search=frontier", "search.max_compute=1")
    with pytest.raises(SettingError, match=r"search\.max_compute"):
        prepare_all([make_config(*common), late])
