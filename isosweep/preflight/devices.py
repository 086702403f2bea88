"""Whether runs have the GPUs that they need: here, or in what each Slurm job asks for."""

from isosweep.config.sweep import SweepConfig
from isosweep.devices import Devices, visible_devices
from isosweep.launchers.sbatch import gpus_of_job

Missing = list[tuple[str, str]]


def missing_devices(config: SweepConfig) -> Missing:
    """What is missing of the GPUs, each with what to do about it; [] if nothing."""
    if config.hardware.device == "cpu":
        return []
    if config.launcher.name == "slurm":
        return _missing_in_jobs(config)
    if config.launcher.name == "command":
        needed, asked = config.hardware.devices_per_run, config.launcher.command.gpus
        what = f"{needed} GPUs in what each job asks for, which is {asked}"
        remedy = "set launcher.command.gpus=null"
        return [(what, remedy)] if asked is not None and asked < needed else []
    return _missing_here(config, visible_devices())


def _missing_in_jobs(config: SweepConfig) -> Missing:
    asked, needed = gpus_of_job(config), config.hardware.devices_per_run
    if asked >= needed or config.launcher.slurm.gpu_options:
        return []
    what = f"{needed} GPUs in what each job asks for, which is {asked}"
    return [(what, f"set launcher.slurm.gpus_per_node={needed}")]


def _missing_here(config: SweepConfig, devices: Devices) -> Missing:
    needed, found = config.hardware.devices_per_run, len(devices.names)
    if found == 0:
        what = f"a GPU ({config.hardware.name}) on this machine: {devices.source}"
        remedy = (
            "run on a GPU machine, submit to a cluster with launcher=slurm, or set hardware=cpu"
        )
        return [(what, remedy)]
    if found < needed:
        what = f"{needed} GPUs for a run, of {devices.described()}"
        return [(what, f"set hardware.devices_per_run={found}")]
    if needed > 1 and devices.names[0].startswith("MIG-"):
        # "Only single MIG instance enumeration is supported" (CUDA C++ Programming Guide).
        what = f"{needed} GPUs that one run can see, where CUDA shows a process one MIG instance"
        return [(f"{what}; {devices.described()}", "set hardware.devices_per_run=1")]
    return _missing_places(config, devices)


def _missing_places(config: SweepConfig, devices: Devices) -> Missing:
    """Whether `launcher.max_parallel` runs have a place: one too many would share its devices
    without a part of them being planned for it."""
    launcher, needed = config.launcher, config.hardware.devices_per_run
    shared = launcher.runs_per_device
    places, wanted = len(devices.names) // needed * shared, launcher.max_parallel
    if wanted is None or wanted <= places:
        return []
    each = f"{shared} on one" if shared > 1 else f"{needed} each"
    what = f"GPUs for {wanted} runs at once, {each}, of {devices.described()}"
    return [(what, f"set launcher.max_parallel={places}")]
