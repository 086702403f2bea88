"""What `mode=analyse` hands to a tracker of its command line."""

import json
from pathlib import Path

import pytest

from isosweep.modes.dispatch import prepare
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import printed, terminal
from tests.modes.sweeps import write_records


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
    here = (f"sweep={root}", "analysis.formats=[]", "tracking=wandb", "tracking.offline=true")
    assert prepare(make_config("mode=analyse", *here))(console) == 0
    said = [line for line in printed(console).splitlines() if "wandb sync" in line]
    assert said == [f"dashboard: after wandb sync {root}/wandb/*run-*"]
    runs = len(json.loads((root / "plan.json").read_text())["runs"])
    assert len(list((root / "wandb").glob("*run-*/*.wandb"))) == runs + 1
