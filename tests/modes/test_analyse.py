"""What `mode=analyse` takes of its command line."""

import json
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.dispatch import prepare
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import printed, sweep_in, terminal
from tests.modes.sweeps import write_records


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


def test_a_view_is_made_in_wandb_offline_and_the_command_that_sends_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ERROR_REPORTING": "false", "CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    sweeps = tmp_path / "sweeps"
    asked = ("tracking=none", f"sweeps_dir={sweeps}", *SMALL)
    assert prepare(make_config("mode=plan", *asked))(terminal()) == 0
    write_records(tmp_path)
    console = terminal(300)
    (root,) = (path.parent for path in sweeps.glob("*/plan.json"))
    here = (f"sweep_dir={root}", "analysis.formats=[]", "tracking=wandb", "tracking.offline=true")
    assert prepare(make_config("mode=analyse", *here))(console) == 0
    said = [line for line in printed(console).splitlines() if "wandb sync" in line]
    assert said == [f"dashboard: after wandb sync {root}/wandb/*run-*"]
    runs = len(json.loads((root / "plan.json").read_text())["runs"])
    assert len(list((root / "wandb").glob("*run-*/*.wandb"))) == runs + 1
