"""What `mode=analyse` takes of its command line, beside the sweep's own settings."""

from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.dispatch import prepare
from tests.conftest import make_config
from tests.modes.looked_after import sweep_in, terminal


@pytest.mark.parametrize(("own", "other"), [("flops", "rollouts"), ("rollouts", "flops")])
def test_another_unit_than_the_budgets_is_refused_with_what_analyses_by_it(
    own: str, other: str, tmp_path: Path
) -> None:
    budget = {"flops": "budget=1e11", "rollouts": "budget=1e4"}
    sweep_in(tmp_path, f"budget_unit={own}", budget[own])
    here = (f"sweeps_dir={tmp_path}", "mode=analyse", "tracking=none", "analysis.formats=[]")
    with pytest.raises(SettingError, match=rf"are in {own}.*analysis\.compute_axis={other}"):
        prepare(make_config(*here, f"budget_unit={other}", budget[other]))(terminal())
    assert prepare(make_config(*here))(terminal()) == 0
