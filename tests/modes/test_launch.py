"""A command that trains ends with a document, where programs read it."""

import json
from pathlib import Path

import pytest

from tests.conftest import SMALL, isosweep


@pytest.mark.train
def test_a_run_prints_one_document_and_a_later_command_its_text(tmp_path: Path) -> None:
    sweep = (*SMALL, "budget=6.4e9", "tracking=none", "sweep=s")
    done = isosweep(*sweep, "format=json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (document["sweep"], document["exit_status"]) == ("s", 0)
    assert document["counts"]["done"] == 2
    assert [Path(path).is_file() for path in document["answers"]] == [True]
    assert " done: n=" in done.stderr
    assert isosweep("mode=resume", cwd=tmp_path).stdout.startswith("sweep: ")
