"""What an upgrade of submitit would break: its private function, by what is relied on of it."""

import inspect
from pathlib import Path
from typing import Any

from submitit.slurm import slurm

from isosweep.launchers import sbatch

ASKED = {
    *("command", "folder", "job_name", "time", "nodes", "ntasks_per_node", "cpus_per_task", "mem"),
    *("gpus_per_node", "dependency", "map_count", "additional_parameters", "setup", "srun_args"),
    "use_srun",
}
SMALLEST: dict[str, Any] = {
    "command": "exec work",
    "folder": Path("/logs"),
    "map_count": None,
    "use_srun": False,
}


def test_it_is_there_and_takes_all_that_it_is_asked_by_name() -> None:
    lacking = ASKED - set(inspect.signature(slurm._make_sbatch_string).parameters)
    assert not lacking, f"submitit's _make_sbatch_string no longer takes {sorted(lacking)}"


def test_the_lines_that_mark_a_job_as_its_own_are_there_to_be_left_out() -> None:
    marked, ours = slurm._make_sbatch_string(**SMALLEST), sbatch.submitit_script(**SMALLEST)
    for mark in sbatch._MARKS:
        assert marked.count(mark) == 1, f"submitit marks its jobs otherwise than by {mark!r}"
        assert mark not in ours


def test_options_are_lines_and_the_command_is_last() -> None:
    text = sbatch.submitit_script(**SMALLEST, additional_parameters={"array": "0-3%2"}, setup=["a"])
    lines = text.strip().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert "#SBATCH --array=0-3%2" in lines
    assert lines.index("a") < lines.index("exec work") == len(lines) - 1
