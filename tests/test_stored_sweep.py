"""Sweeps written by earlier versions are read, or refused in words that say what to do.

`tests/stored/<commit>/` holds one as that commit wrote it, without logs, checkpoints and report.
"""

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from isosweep.errors import RecordError, SettingError
from isosweep.files import write_json
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.dispatch import prepare
from isosweep.store.records import read_metrics, read_records
from isosweep.store.state import read_state
from tests.conftest import make_config

STORED = Path(__file__).parent / "stored" / "7d15ed2"


@pytest.fixture
def sweep(tmp_path: Path) -> StoredSweep:
    """The stored sweep, copied to `tmp_path`."""
    shutil.copytree(STORED, tmp_path / "sweeps")
    (config,) = (tmp_path / "sweeps").glob("*/config.json")
    settings = json.loads(config.read_text())
    write_json(config, settings | {"sweeps_dir": str(tmp_path / "sweeps")})
    return stored_sweep(make_config(f"sweep_dir={config.parent}"))


def test_a_sweep_of_7d15ed2_is_read_whole(sweep: StoredSweep) -> None:
    assert [run.num_generations for run in sweep.plan.runs] == [2, 4]
    for run in sweep.plan.runs:
        files = sweep.paths.run(run.run_id)
        read = read_records(files.records)
        assert not read.problems
        last = read.records[-1]
        assert last.compute.has_reached(run.milestones[-1], "flops")
        assert len(read_metrics(files.metrics, files.records)) == last.step
        state = read_state(files)
        assert state is not None
        assert (state.status, state.step) == ("finished", last.step)


def test_runs_of_other_numerics_are_not_gone_on_with(sweep: StoredSweep) -> None:
    config = make_config("mode=resume", "tracking=none", f"sweep_dir={sweep.paths.root}")
    with pytest.raises(SettingError, match="of which this version of isosweep would make"):
        prepare(config)(Console(width=200))


@pytest.mark.parametrize("mode", ["status", "analyse"])
def test_a_sweep_of_7d15ed2_is_reported_and_analysed(
    mode: str, sweep: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in sweep.paths.runs.rglob("*.jsonl")}
    config = make_config(f"mode={mode}", "tracking=none", f"sweep_dir={sweep.paths.root}")
    assert prepare(config)(Console(width=200)) == 0
    output = capsys.readouterr().out
    assert (" 0.484" if mode == "status" else "verdict: ") in output
    assert {path: path.read_bytes() for path in sweep.paths.runs.rglob("*.jsonl")} == before


def test_another_format_is_refused_with_what_to_do(sweep: StoredSweep) -> None:
    document = json.loads(sweep.paths.plan.read_text())
    write_json(sweep.paths.plan, document | {"version": 1})
    with pytest.raises(RecordError, match="plan the sweep again in another sweep_dir"):
        stored_sweep(make_config(f"sweep_dir={sweep.paths.root}"))
