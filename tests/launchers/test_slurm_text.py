"""The sbatch text that a run is submitted with."""

import difflib
import os
from pathlib import Path

from submitit import SlurmExecutor

from isosweep.launchers.slurm import executor_parameters, gpus_of_job
from tests.conftest import make_config

GOLDEN = Path(__file__).parent / "run.sbatch"


def test_the_sbatch_text_is_the_golden_one(tmp_path: Path) -> None:
    config = make_config(
        "launcher=slurm",
        "launcher.slurm.partition=main",
        "launcher.slurm.account=lab",
        "launcher.slurm.gpus_per_node=1",
        "launcher.slurm.mem_gb=64",
        "launcher.slurm.setup=[module load cuda]",
        "+launcher.slurm.additional.constraint=h200",
    )
    # submitit refuses to make a Slurm executor without sbatch; the text needs none.
    sbatch = tmp_path / "bin" / "srun"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\n")
    sbatch.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{sbatch.parent}:{before}"
    try:
        executor = SlurmExecutor(tmp_path / "logs", python="python")
        parameters = executor_parameters(config.launcher.slurm, "a-run", gpus_of_job(config))
        executor.update_parameters(**parameters)
        text = executor._make_submission_file_text("COMMAND", "UID")
    finally:
        os.environ["PATH"] = before
    text = text.replace(str(tmp_path / "logs"), "LOGS")
    if os.environ.get("ISOSWEEP_ACCEPT_GOLDEN"):
        GOLDEN.write_text(text)
    diff = "\n".join(difflib.unified_diff(GOLDEN.read_text().splitlines(), text.splitlines()))
    assert not diff, f"{diff}\naccept it with ISOSWEEP_ACCEPT_GOLDEN=1"
