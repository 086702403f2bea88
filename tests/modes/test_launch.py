"""A command that follows a sweep ends with a document, where programs read it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import isosweep


@pytest.mark.train
def test_it_prints_one_document_and_another_command_its_text(
    straight: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    done = isosweep("mode=resume", "format=json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (document["counts"]["done"], document["exit_status"]) == (2, 0)
    assert [Path(path).is_file() for path in document["answers"]] == [True]
    assert isosweep("mode=resume", cwd=tmp_path).stdout.startswith("sweep: ")
