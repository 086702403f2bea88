"""What to train next in Python is what `mode=next` says, and nothing is written."""

from dataclasses import replace
from pathlib import Path

import pytest

import isosweep
from isosweep.modes.directory import read_sweep
from tests.door.conftest import FRAMES
from tests.modes.test_next import planned, proposed, said, train


def test_a_proposal_is_that_of_the_command_line_and_nothing_is_written(tmp_path: Path) -> None:
    name = planned(tmp_path, "hardware.dollars_per_hour=36")
    train(tmp_path, name)
    sweep = isosweep.open(name, tmp_path / "sweeps")
    before = sorted(tmp_path.rglob("*"))
    more = sweep.next_runs(max_compute=1e11)
    assert sorted(tmp_path.rglob("*")) == before
    document = proposed(tmp_path, f"from=[{name}]", "search.max_compute=1e11")
    (variant,) = document["variants"]
    assert document | {"command": None} == more.document
    runs = more.runs
    columns = FRAMES["sweep.next_runs().runs"]
    assert [(c, str(kind)) for c, kind in runs.dtypes.items()] == [
        (c.name, c.dtype) for c in columns
    ]
    assert list(runs.run_id) == [step["run_id"] for step in variant["steps"]]
    assert 0 < more.compute == pytest.approx(runs.compute.sum())
    assert more.device_hours == pytest.approx(runs.device_hours.sum())
    assert more.dollars == pytest.approx(36 * runs.device_hours.sum())
    assert "$" in repr(more)
    told = said(tmp_path, f"from=[{name}]", "search.max_compute=1e11")
    assert more.summary
    assert all(line in " ".join(told.split()) for line in more.summary)
    assert more._repr_html_().count("<tr>") == 1 + min(8, len(runs))


def test_the_command_plans_what_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = planned(tmp_path)
    train(tmp_path, name)
    more = isosweep.open(name, tmp_path / "sweeps").next_runs(max_compute=1e11)
    assert more.command is not None
    *_, where, sweeps, most = more.command.split()
    monkeypatch.chdir(tmp_path)
    document = proposed(tmp_path, where, sweeps, most)
    own = read_sweep(Path(document["command"].rpartition("sweep_dir=")[2]))
    assert set(more.runs.run_id) <= {run.run_id for run in own.plan.runs}
    assert replace(own.config.search, max_compute=None).kind == "frontier"


def test_where_nothing_is_proposed_the_reason_is_told(studies: Path) -> None:
    whole = isosweep.open(studies / "sweeps" / "studies" / "few_problems")
    records = whole.variant("many_problems").records.query("seed < 2")
    where = studies / "sweeps" / "decided"
    more = isosweep.from_frame(records, where, columns={"reward": "reward"}).next_runs()
    assert repr(more) == "<NextRuns: nothing is proposed>"
    assert (len(more.runs), more.command, more.compute) == (0, None, 0)
    assert more.document["variants"][0]["stop"]["kind"] == "decided"
    assert any("decided" in line for line in more.summary)
    assert "<table>" not in more._repr_html_()
