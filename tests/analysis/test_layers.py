"""Statistics are computed from numbers: only loading reads files."""

import re
import subprocess
import sys
from pathlib import Path

STATISTICS = Path(__file__).resolve().parents[2] / "analysis" / "statistics"
# Modules of ours that read or write files or look at the machine, and what does so for others.
IO = {
    "isosweep.analysis.load",
    "isosweep.analysis.report",
    "isosweep.files",
    "isosweep.machine",
    "isosweep.store.paths",
    "isosweep.store.records",
    *("hydra", "omegaconf", "matplotlib", "jinja2", "torch", "mlflow"),
}
STANDARD = ("pathlib", "os", "io", "shutil", "subprocess", "time", "tempfile")


def test_statistics_reach_no_module_that_does_io() -> None:
    names = [f"isosweep.analysis.statistics.{path.stem}" for path in STATISTICS.glob("*.py")]
    code = f"import sys, {', '.join(names)}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not IO & {*done.stdout.split()}
    # Neither inside a function.
    named = "|".join(map(re.escape, (*IO, *STANDARD)))
    for path in STATISTICS.glob("*.py"):
        assert not re.search(rf"^\s*(from|import) ({named})\b", path.read_text(), re.MULTILINE), (
            path
        )
