"""Where runs execute."""

from collections.abc import Sequence
from dataclasses import asdict, field
from typing import Any, Literal

from isosweep.config.command import CommandConfig
from isosweep.config.settings import read, settings
from isosweep.config.slurm import SlurmConfig
from isosweep.config.values import NonNegativeInt, Positive, PositiveInt


@settings("launcher")
class LauncherConfig:
    """Where runs execute, and how many at once."""

    name: Literal["local", "slurm", "command", "auto", "inline"]
    """This machine, jobs of a Slurm cluster, jobs of another scheduler by its commands, Slurm
    where there is one and else this machine, or this very process, one run after another."""
    max_parallel: PositiveInt | None = None
    """Runs at once; null: as many as the GPUs, or the cores of a CPU machine, have room for
    (`local`), or all (`slurm`, `command`)."""
    runs_per_device: PositiveInt = 1
    """Runs of one GPU each that share it: each is planned with its part of memory and speed."""
    confirm_above: Positive | None = 100.0
    """Predicted device-hours above which a terminal is asked before they are spent; null: never."""
    max_device_hours: Positive | None = None
    """Predicted device-hours above which nothing is launched; null: no limit."""
    max_dollars: Positive | None = None
    """The same in US dollars, by `hardware.dollars_per_hour`; null: no limit."""
    max_retries: NonNegativeInt = 2
    """Times that a run which fails is tried again."""
    stop_grace_s: Positive = 60.0
    """Seconds that a stopped run is given to write a checkpoint."""
    stuck_after: Positive | None = None
    """Seconds without progress after which a run is ended and tried again; null: 20 planned steps
    or evaluations, whichever take longer, and half an hour at least. A worker that still loads its
    model has half an hour at least in any case."""
    on_finish: str | None = None
    """Run when a followed sweep ends, fails or is interrupted: a shell command, in which
    `{sweep_dir}`, `{status}`, `{report}`, `{done}` and `{failed}` are filled in, or an `https://`
    address that is sent them as JSON; `$NAME` in it is taken from the environment."""
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    """What each job asks for, with `launcher=slurm`."""
    command: CommandConfig = field(default_factory=CommandConfig)
    """How jobs are made, observed and ended, with `launcher=command`."""


def overridden(
    stored: LauncherConfig, asked: LauncherConfig, given: Sequence[str]
) -> LauncherConfig:
    """`stored`, with those of the settings named in `given` (`launcher.slurm.qos`) of `asked`.

    A launcher that is given itself counts with all its settings.
    """
    if "launcher" in given:
        return asked
    plain, wanted = asdict(stored), asdict(asked)
    for name in given:
        if not name.startswith("launcher."):
            continue
        *groups, last = name.split(".")[1:]
        target: dict[str, Any] = plain
        source: dict[str, Any] = wanted
        for group in groups:
            target, source = target[group], source[group]
        if last in source:
            target[last] = source[last]
        else:
            # Taken away, as by `~launcher.slurm.additional.exclusive`.
            target.pop(last, None)
    return read(LauncherConfig, plain)
