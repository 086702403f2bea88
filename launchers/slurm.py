"""Runs as Slurm jobs, through submitit's Slurm executor: one job a run."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor

from isosweep.config.launcher import SlurmConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import PreflightError


def gpus_of_job(config: SweepConfig) -> int:
    """GPUs that each job asks for by `--gpus-per-node`: those of its run, unless the settings say
    otherwise; 0 where it asks for none, or by an option of its own."""
    slurm, hardware = config.launcher.slurm, config.hardware
    if slurm.gpus_per_node is not None:
        return slurm.gpus_per_node
    return hardware.devices_per_run if hardware.device == "cuda" and not slurm.gpu_options else 0


def executor_parameters(config: SlurmConfig, name: str, gpus: int) -> dict[str, Any]:
    """submitit's Slurm parameters for one run, whose job asks for `gpus`."""
    parameters: dict[str, Any] = {
        "job_name": name,
        "time": config.timeout_min,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": config.cpus_per_task,
        "setup": config.setup or None,
        "additional_parameters": dict(config.additional) or None,
        "partition": config.partition,
        "account": config.account,
        "qos": config.qos,
        "mem": None if config.mem_gb is None else f"{round(config.mem_gb * 1024)}M",
        "gpus_per_node": gpus or None,
    }
    return {key: value for key, value in parameters.items() if value is not None}


def require_slurm() -> None:
    """Raise PreflightError where Slurm's commands are missing."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        remedy = "run on a login node of the cluster, or set launcher=local"
        raise PreflightError([(f"Slurm's {', '.join(missing)}", remedy)])


class SlurmLauncher:
    """Submits each run as a job of its own."""

    detaches = True

    def __init__(self, config: SlurmConfig, gpus: int) -> None:
        require_slurm()
        self._config, self._gpus = config, gpus

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any:
        """Submit the job to Slurm; returns submitit's job."""
        executor = SlurmExecutor(logs, max_num_timeout=self._config.max_requeues)
        executor.update_parameters(**executor_parameters(self._config, name, self._gpus))
        return executor.submit(job)

    def ended(self, handle: Any) -> bool:
        """Whether the job has left Slurm's queue; asked of squeue, which needs no accounting."""
        command = ["squeue", "--noheader", "--jobs", handle.job_id, "--format=%T"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return "Invalid job id" in answer.stderr
        return answer.stdout.strip() in ("", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")

    def stop(self, handle: Any) -> None:
        """Cancel the job."""
        cancel_job(handle.job_id)


def cancel_job(job_id: str) -> None:
    """Ask Slurm to end a job; one that has ended is left alone."""
    subprocess.run(["scancel", job_id], capture_output=True, check=False)
