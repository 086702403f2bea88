"""Runs of another trainer, given as a frame, as a sweep."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.config.compose import config_of
from isosweep.config.overrides import as_typed
from isosweep.config.study import QUANTITIES
from isosweep.door.sweep import Sweep
from isosweep.importing.tables import with_metric_columns
from isosweep.modes.importing import store_frame
from isosweep.words.importing import notes

if TYPE_CHECKING:
    import pandas


def from_frame(
    frame: "pandas.DataFrame",
    sweep_dir: str | Path | None = None,
    *,
    columns: Mapping[str, object] | None = None,
    **settings: object,
) -> Sweep:
    """Return a sweep made of the runs in a frame, and written to `sweep_dir`.

    `frame`: one row for each held-out evaluation. `sweep_dir`: where all files go, those of the
    runs too unless `sweeps_dir` is given; None for `imported-frame` in `sweeps_dir`. `columns`:
    which column holds `n`, `B`, `step`, `reward` and the other settings of `import`, or a number
    that all rows share; columns with a usual name are found without it. `settings`: other settings
    by name, such as `budget` and `budget_unit`. Warnings go to standard error. Raises SettingError
    for a frame that cannot be read this way.

    >>> isosweep.from_frame(frame, "sweeps/ours", columns={"n": "rollout.n", "reward": "val"})
    <Sweep ours: 24 runs, 7 budgets up to 3.2e7 rollouts>
    """
    given = dict(columns or {})
    quantities = {name: given.pop(name) for name in QUANTITIES if name in given}
    mapped = {"import.columns": quantities, **{f"import.{n}": v for n, v in given.items()}}
    own = None if sweep_dir is None else str(Path(sweep_dir).expanduser().absolute())
    where = {} if own is None else {"sweep": own, "sweeps_dir": own}
    config = config_of(["mode=import", *as_typed({**mapped, **where, **settings})])
    shaped = with_metric_columns(frame, config.importing)
    stored, imported, _ = store_frame(config, shaped, ["frame"])
    for line in notes(imported.notes, stored.plan.budget_unit):
        sys.stderr.write(f"isosweep: {line}\n")
    return Sweep(stored=stored, analysis=stored.config.analysis)
