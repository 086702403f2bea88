"""The archives of docs/studies.md are read as they were written."""

import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, read_sweep
from isosweep.modes.dispatch import prepare
from isosweep.store.records import read_records
from isosweep.store.state import read_state
from tests.conftest import make_config

STUDIES = Path(__file__).parent.parent / "docs" / "studies"


def stored(archive: str, sweep: str, root: Path) -> StoredSweep:
    """The sweep of an archive, unpacked below `root`."""
    with tarfile.open(STUDIES / f"{archive}.tar.xz") as packed:
        packed.extractall(root, filter="data")
    return read_sweep(root / sweep)


@pytest.mark.parametrize(
    ("archive", "sweep"),
    [
        ("few_problems", "few_problems"),
        ("smollm2", "smollm2_few"),
        ("smollm2", "smollm2_many"),
    ],
)
def test_a_study_is_read_whole(archive: str, sweep: str, tmp_path: Path) -> None:
    study = stored(archive, sweep, tmp_path)
    assert study.plan.runs
    for run in study.plan.runs:
        files = study.paths.run(run.run_id)
        read = read_records(files.records)
        assert not read.problems
        state = read_state(files)
        assert state is not None
        assert state.status == "finished"
        last = read.records[-1]
        assert last.step <= state.step
        assert last.compute.has_reached(run.milestones[-1], study.config.unit)


def test_runs_of_other_ids_are_not_gone_on_with(tmp_path: Path) -> None:
    study = stored("smollm2", "smollm2_few", tmp_path)
    config = make_config("mode=resume", "tracking=none", f"sweep_dir={study.paths.root}")
    with pytest.raises(SettingError, match="of which this version of isosweep would make"):
        prepare(config)(Console(width=200))


def test_a_study_is_reported_and_its_records_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = stored("smollm2", "smollm2_few", tmp_path)
    before = {path: path.read_bytes() for path in study.paths.runs.rglob("*.jsonl")}
    config = make_config("mode=status", "tracking=none", f"sweep_dir={study.paths.root}")
    assert prepare(config)(Console(width=200)) == 0
    assert "done" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in study.paths.runs.rglob("*.jsonl")} == before
