"""Output to somebody who has left, or who does not read what is written."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.modes.signals import Output
from tests.conftest import in_ci
from tests.modes.looked_after import sweep_in


@pytest.mark.parametrize("redirection", in_ci(("| true", "| head -1", ">&-"), "| true", ">&-"))
def test_a_reader_that_leaves_is_no_error(redirection: str, tmp_path: Path) -> None:
    root = sweep_in(tmp_path / "sweeps").paths.root
    line = f'"$0" -m isosweep mode=status sweep_dir={root} {redirection}'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_output_cannot_encode_is_escaped() -> None:
    written = io.BytesIO()
    output = Output(io.TextIOWrapper(written, encoding="ascii"))
    assert output.write("100% █") == len("100% █")
    output.flush()
    assert written.getvalue() == rb"100% \u2588"
