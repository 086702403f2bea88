"""The sweeps that `sweep_dir` and `from` mean: by directory, by name, by the beginning of one."""

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, named_root, read_sweep, stored_sweep


def one_sweep(config: SweepConfig, what: str) -> StoredSweep:
    """The only one of `named_sweeps`. Raises SettingError for several, which `what` is not for."""
    (_, sweep), *more = named_sweeps(config)
    if more:
        raise SettingError("from", config.from_sweep, f"{what} one sweep", f"from={sweep.name}")
    return sweep


def named_sweeps(config: SweepConfig) -> list[tuple[str, StoredSweep]]:
    """The sweeps of `from`, or the one of `sweep_dir`, each with the name to show it by."""
    if config.from_sweep is None:
        sweep = stored_sweep(config)
        return [(sweep.name, sweep)]
    roots = [named_root("from", name, config.sweeps_dir) for name in config.from_sweep]
    # Directories of one name are shown as they were given.
    alike = len({root.name for root in roots}) < len(roots)
    return [
        (given if alike else root.name, read_sweep(root))
        for given, root in zip(config.from_sweep, roots, strict=True)
    ]
