"""What `mode=analyse` takes of its command line, beside the sweep's own settings."""

from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.dispatch import prepare
from tests.conftest import make_config
from tests.modes.looked_after import sweep_in, terminal


def test_another_unit_than_the_budgets_is_refused_with_what_analyses_by_it(tmp_path: Path) -> None:
    sweep_in(tmp_path)
    here = (f"sweeps_dir={tmp_path}", "mode=analyse", "tracking=none", "analysis.formats=[]")
    other = prepare(make_config(*here, "budget_unit=rollouts", "budget=1e4"))
    with pytest.raises(
        SettingError, match=r"budgets are in flops.*analysis\.compute_axis=rollouts"
    ):
        other(terminal())
    assert prepare(make_config(*here, "budget_unit=flops"))(terminal()) == 0


def test_a_sweep_of_another_unit_is_analysed_without_naming_it(tmp_path: Path) -> None:
    sweep_in(tmp_path, "budget_unit=rollouts", "budget=1e4")
    here = (f"sweeps_dir={tmp_path}", "mode=analyse", "tracking=none", "analysis.formats=[]")
    assert prepare(make_config(*here))(terminal()) == 0
    with pytest.raises(SettingError, match=r"budgets are in rollouts.*compute_axis=flops"):
        prepare(make_config(*here, "budget_unit=flops"))(terminal())
