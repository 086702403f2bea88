"""Every variant of a config, its problems chosen by difficulty."""

from dataclasses import replace
from pathlib import Path

from isosweep.config.axes import Variant, combinations
from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.selection import resolve


def variants(config: SweepConfig) -> tuple[Variant, ...]:
    """Every combination of `grid.axes`, in the order given; the config itself without axes.

    Problems chosen by difficulty are resolved. Raises SettingError where they are not measured,
    and as `combinations` does.
    """
    sweeps, found = Path(config.sweeps_dir).absolute(), []
    for variant in combinations(config):
        one = variant.config
        task = resolve(one.model, one.task, one.difficulty, sweeps)
        found.append(replace(variant, config=replace(one, task=task)))
    return tuple(found)
