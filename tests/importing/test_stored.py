"""What is stored of a table beside its rewards: compute worked out, further sets, its address."""

from pathlib import Path

import pandas
import pytest

from isosweep.analysis.load import load_sweep
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.compose import config_of
from isosweep.errors import SettingError
from isosweep.modes.dispatch import prepare
from isosweep.modes.importing import store_frame
from isosweep.modes.sweeps import StoredSweep
from tests.importing.test_tables import TOKENS, table
from tests.modes.looked_after import terminal

FRAME = table(tokens=TOKENS, hard=lambda rows: 0.1 + rows["step"] / 1000)


def stored(tmp_path: Path, *overrides: str, frame: pandas.DataFrame = FRAME) -> StoredSweep:
    asked = ("mode=import", f"sweeps_dir={tmp_path}", "sweep=a", *overrides)
    return store_frame(config_of(asked), frame, ["postgresql://me:secret@host/db"])[0]


def test_a_run_that_ended_before_a_budget_is_stored_and_read_again(tmp_path: Path) -> None:
    short = FRAME[~((FRAME["run"] == "n2s1") & (FRAME["step"] > 40))]
    sweep = stored(tmp_path, "budget=[320,640,1280]", "budget_unit=rollouts", frame=short)
    assert [len(run.milestones) for run in sweep.plan.runs] == [3, 2, 3, 3]
    assert len(sweep.plan.cells) == 12


def test_a_further_set_is_read_like_any_other(tmp_path: Path) -> None:
    sweep = stored(tmp_path, "import.sets={hard:hard}", "budget_unit=tokens")
    data = load_sweep(sweep.paths, AnalysisConfig(evaluation_set="hard"))
    rewards = [curve.reward[-1] for curve in data.curves]
    assert rewards == pytest.approx([0.18] * 4)


def test_a_password_in_an_address_is_not_stored(tmp_path: Path) -> None:
    stored(tmp_path, "budget_unit=tokens")
    texts = [path.read_text() for path in (tmp_path / "a").iterdir() if path.is_file()]
    assert any("postgresql://me@host/db" in text for text in texts)
    assert not any("secret" in text for text in texts)


def test_not_even_a_dry_run_takes_the_directory_of_another_plan(tmp_path: Path) -> None:
    plan = stored(tmp_path, "budget_unit=tokens").plan
    asked = ("mode=launch", "dry_run=true", f"sweeps_dir={tmp_path}", "sweep=a", "tracking=none")
    with pytest.raises(SettingError, match=f"belongs to plan {plan.plan_id}"):
        prepare(config_of(asked))(terminal())
