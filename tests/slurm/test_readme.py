"""The commands of README.md for a cluster, on a real Slurm with the built-in model."""

import json
from pathlib import Path

import pytest

from tests.conftest import isosweep
from tests.test_readme import FEWER, recipe

pytestmark = [pytest.mark.slurm, pytest.mark.train]


@pytest.mark.usefixtures("slurm_environment")
def test_the_clusters_commands_follow_each_other(tmp_path: Path) -> None:
    _, launch, status, resume = recipe("cluster")
    assert "launcher=slurm" in launch
    # The cluster of the tests has no GPU, and calls its partition otherwise.
    kept = [word for word in launch if not word.startswith(("budget=", "model=", "hardware="))]
    kept = ["launcher.slurm.partition=main" if "partition=" in word else word for word in kept]
    small = ("launcher.slurm.cpus_per_task=1", "launcher.slurm.mem_gb=1", "tracking=none")
    isosweep(*kept, *FEWER, *small, cwd=tmp_path)
    assert "2 runs: 2 done" in isosweep(*status, cwd=tmp_path).stdout
    assert "verdict: " in isosweep(*resume, cwd=tmp_path).stdout
    made = [json.loads(path.read_text()) for path in tmp_path.glob("sweeps/runs/*/attempts/1.json")]
    assert {attempt["launcher"] for attempt in made} == {"slurm"}
