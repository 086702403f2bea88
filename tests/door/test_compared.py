"""Sweeps side by side in Python are what `mode=compare` writes."""

from dataclasses import asdict
from pathlib import Path

import pytest

import isosweep
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import read_json, to_json, write_json
from isosweep.modes.analyse import compare_sweeps
from tests.analysis.sweeps import REWARD, RewardAt, make_plan, peaked, write_sweep
from tests.conftest import make_config
from tests.modes.looked_after import terminal

PLAN = make_plan(generations=(2, 4, 8), batches=(4,), seeds=(0, 1))
ASKED = ("analysis.readings_per_decade=0",)
SWEEPS: dict[str, RewardAt] = {"rising": REWARD, "flat": peaked(lambda C: 2.0)}


def written(config: SweepConfig) -> dict[str, object]:
    return config.model_dump() | {"budget": list(config.budgets)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sweeps whose n* lie apart, each in a directory of its own."""
    directory = tmp_path_factory.mktemp("compared")
    for name, reward in SWEEPS.items():
        paths = write_sweep(directory / name, reward, plan=PLAN)
        write_json(paths.config, written(make_config(*ASKED)))
        paths.root.rename(paths.root.with_name(name))
    return directory


def test_a_comparison_is_that_of_the_command_line(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = isosweep.compare(*(directory / name / name for name in SWEEPS))
    assert {path.name for path in directory.iterdir()} == set(SWEEPS)
    monkeypatch.chdir(directory)
    config = make_config("mode=compare", "sweep=[rising/rising,flat/flat]", *ASKED)
    assert compare_sweeps(config, terminal()) == 0
    (file,) = directory.glob("sweeps/comparison-*/analysis/comparison.json")
    assert to_json(asdict(compared.answer)) == read_json(file)
    assert list(compared.verdicts) == ["rising", "flat"]
    assert len(compared.frontier) == 2 * len(PLAN.budgets)
    last = compared.frontier.set_index(["sweep", "budget"]).loc["flat"].iloc[-1]
    assert last.better == compared.answer.frontiers[-1].better
    assert len(compared.summary) == 1
    assert compared._repr_html_().count("<tr") == 1 + len(SWEEPS)
    assert compared.plot("comparison_reward").get_suptitle()
    with pytest.raises(SettingError, match=r"figure=reward: must be one of comparison_reward"):
        compared.plot("reward")


def test_all_are_analysed_as_the_first_or_as_asked(directory: Path) -> None:
    first, second = (isosweep.open(directory / name / name) for name in SWEEPS)
    assert list(isosweep.compare(first, first.select(seeds=0)).verdicts) == ["rising", "seeds=[0]"]
    best = isosweep.compare(first.view(metric="best"), second)
    assert {entry.data.metric for entry in best.entries} == {"best"}
    asked = isosweep.compare(first, second, metric="worst")
    assert {entry.data.metric for entry in asked.entries} == {"worst"}


def test_fewer_than_two_and_the_same_twice_are_refused(directory: Path) -> None:
    whole = isosweep.open(directory / "rising" / "rising")
    with pytest.raises(SettingError, match="sweeps=1: a comparison takes two"):
        isosweep.compare(whole)
    with pytest.raises(SettingError, match="sweeps=rising: is given twice"):
        isosweep.compare(whole, whole)
    with pytest.raises(SettingError, match=r"sweep=rsing: .*works: sweep=rising$"):
        isosweep.compare("rising", "rsing", sweeps_dir=directory / "rising")
