"""The archives of docs/studies.md are read as they were written."""

import tarfile
from pathlib import Path

import pytest

from isosweep.modes.directory import read_sweep
from isosweep.store.records import read_records
from isosweep.store.state import read_state

STUDIES = Path(__file__).parent.parent / "docs" / "studies"


@pytest.mark.parametrize(
    ("archive", "sweep"),
    [
        ("few_problems", "few_problems"),
        ("smollm2", "smollm2_few"),
        ("smollm2", "smollm2_many"),
    ],
)
def test_a_study_is_read_whole(archive: str, sweep: str, tmp_path: Path) -> None:
    with tarfile.open(STUDIES / f"{archive}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    study = read_sweep(tmp_path / sweep)
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
