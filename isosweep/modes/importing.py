"""`mode=import`: logs of runs that were trained elsewhere, as a sweep like any other."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import without_password
from isosweep.errors import SettingError
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep, new_root, read_sweep
from isosweep.modes.terminal import say, typed, warn
from isosweep.plan.document import Imported, Note
from isosweep.reserved import RUNS
from isosweep.store.paths import SweepPaths
from isosweep.words import importing as words

if TYPE_CHECKING:
    import pandas

# Groups of settings that say something of runs trained elsewhere, if they were typed.
_KEPT = ("model", "task")
# Letters of a file's name in the sweep's.
_LONGEST = 60
# Groups that count whatever was trained.
_ASKED = ("analysis", "tracking")


def import_runs(config: SweepConfig, console: Console) -> int:
    """Read the logs of `import.files`, store them as a sweep and say what to do with it; returns 0.

    Raises SettingError as `store_frame` and readers do.
    """
    from isosweep.importing.readers import read_sources

    files = config.importing.files
    if not files:
        rule = "not given: which logs are read"
        raise SettingError("import.files", "null", rule, "import.files=FILE or =DIRECTORY")
    notes: list[Note] = []
    try:
        frame = read_sources(files, config.importing, notes)
        sweep, imported, before = store_frame(config, frame, files, notes)
    except SettingError as refused:
        # What was read may not be what was meant.
        others = [note.example for note in notes if note.kind == "other kinds"]
        if not others:
            raise
        rule = f"{refused.rule}. Files of other kinds were left out ({'; '.join(others)})"
        other = others[0].partition(", not ")[2].partition(":")[0]
        nearest = ", or ".join(filter(None, (refused.nearest, f"import.reader={other}")))
        raise SettingError(refused.setting, refused.value, rule, nearest) from None
    say(console, *words.read(imported, sweep.plan))
    warn(console, *words.notes(imported.notes, sweep.plan.budget_unit))
    if before is not None and before["plan_id"] != sweep.plan.plan_id:
        warn(console, words.replaced(before, sweep.plan))
    say(console, f"sweep: {sweep.paths.root}")
    say(console, f"  python -m isosweep mode=analyse {typed('sweep', sweep.paths.root)}")
    return 0


def store_frame(
    config: SweepConfig, frame: "pandas.DataFrame", source: list[str], read: Sequence[Note] = ()
) -> tuple[StoredSweep, Imported, JsonObject | None]:
    """The sweep that the table's runs make, stored; how they were read; and the plan.json of the
    import that was there before. `read`: notes of the readers.

    Raises SettingError for a table that cannot be read as `config.importing` says, and where the
    sweep's directory holds another.
    """
    from isosweep.importing.columns import find_columns
    from isosweep.importing.plan import imported_plan
    from isosweep.importing.runs import read_runs
    from isosweep.importing.store import store_sweep

    given = config.given
    unit = config.budget_unit if "budget_unit" in given else None
    columns = find_columns(frame, config.importing, unit)
    runs, notes = read_runs(frame, columns, config.importing)
    budgets = config.budgets if "budget" in given else None
    plan, kept, more = imported_plan(runs, columns.unit, budgets)
    low, high = config.importing.reward_range or (0.0, 1.0)
    imported = Imported(
        source=tuple(map(without_password, source)),
        columns=dict(columns.found),
        guessed=columns.guessed,
        reward_range=(low, high),
        notes=(*read, *notes, *more),
    )
    paths = _paths(config, source)
    settings = _settings(config, paths, imported.source) | {
        "budget": list(plan.budgets),
        "budget_unit": plan.budget_unit,
    }
    before = store_sweep(paths, plan, kept, imported, settings)
    return read_sweep(paths.root), imported, before


def _paths(config: SweepConfig, source: list[str]) -> SweepPaths:
    sweeps = Path(config.sweeps_dir).absolute()
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(source[0]).stem).strip("-.")[:_LONGEST]
    return SweepPaths(new_root(config, f"imported-{stem}"), sweeps / RUNS)


def _settings(config: SweepConfig, paths: SweepPaths, source: Sequence[str]) -> JsonObject:
    """What is known of how the runs were trained, and what is asked of them."""
    every = config.model_dump()
    typed_groups = {name.partition(".")[0] for name in config.given}
    kept = (*_ASKED, *(group for group in _KEPT if group in typed_groups))
    return {
        "mode": "import",
        "sweep": [str(paths.root)],
        "sweeps_dir": str(paths.runs.parent),
        "importing": every["importing"] | {"files": list(source)},
        **{group: every[group] for group in kept},
    }
