"""What `mode=analyse` hands to a tracker of its command line."""

import json
from pathlib import Path

import pytest

from isosweep.modes.dispatch import prepare
from tests.commands import in_process
from tests.conftest import SMALL, make_config
from tests.contract.surface import write_csv
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
    here = (f"sweep={root}", "tracking=wandb", "tracking.offline=true")
    assert prepare(make_config("mode=analyse", *here))(console) == 0
    said = [line for line in printed(console).splitlines() if "wandb sync" in line]
    assert said == [f"dashboard: after wandb sync {root}/wandb/*run-*"]
    runs = len(json.loads((root / "plan.json").read_text())["runs"])
    assert len(list((root / "wandb").glob("*run-*/*.wandb"))) == runs + 1


def test_a_document_is_all_that_standard_output_has(tmp_path: Path) -> None:
    rows = (
        {"n": n, "B": 4, "seed": seed, "rollouts": at, "reward": 0.1 + 0.01 * n * at / 1e4}
        for n in (4, 8, 16)
        for seed in (0, 1)
        for at in (1000, 2000, 4000, 8000)
    )
    write_csv(tmp_path / "a.csv", rows)
    quick = ("tracking=none", "format=json")
    for command, fields in {
        "mode=import import.files=a.csv sweep=one": {"sweep", "plan_id", "imported"},
        "mode=import import.files=a.csv sweep=two": {"sweep", "plan_id", "imported"},
        "mode=analyse sweep=one": {"sweep", "variants"},
        "mode=compare sweep=[one,two]": {"sweeps", "report", "comparison"},
        "mode=next sweep=one": {"spent", "command", "steps"},
    }.items():
        done = in_process((*command.split(), *quick), tmp_path)
        assert done.returncode == 0, done.stderr
        assert fields | {"version"} <= json.loads(done.stdout).keys()
