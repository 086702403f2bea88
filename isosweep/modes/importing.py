"""`mode=import`: logs of runs that were trained elsewhere, as a sweep like any other."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import without_password
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json
from isosweep.modes.sweeps import StoredSweep, new_root, read_sweep
from isosweep.modes.terminal import progress_console, say, show_json, typed, warn
from isosweep.plan.document import Imported, Note
from isosweep.reserved import RUNS
from isosweep.store.completions import append_completions
from isosweep.store.paths import SweepPaths
from isosweep.store.records import attempt_file
from isosweep.words import importing as words

if TYPE_CHECKING:
    import pandas

# Raised when a field of the document goes or changes its meaning; fields may be added.
VERSION: Final = 1
# Groups of settings that are stored: what is asked of the records, and if they were typed, what
# says how the runs were trained.
_STORED, _IF_TYPED = ("analysis", "tracking"), ("model", "task")
# Letters of a file's name in the sweep's.
_LONGEST = 60


def import_runs(config: SweepConfig, console: Console) -> int:
    """Read the logs of `import.files`, store them as a sweep and say what to do with it; returns 0.

    Raises SettingError as `store_frame` and readers do.
    """
    from isosweep.importing.readers import read_sources

    files, told = config.importing.files, progress_console(config, console)
    if not files:
        rule = "not given: which logs are read"
        raise SettingError("import.files", "null", rule, "import.files=FILE or =DIRECTORY")
    notes: list[Note] = []
    try:
        frame = read_sources(files, config.importing, notes)
        sweep, imported, before = store_frame(config, frame, files, notes)
    except SettingError:
        # What was left out may be why.
        warn(told, *words.notes(notes, config.budget_unit))
        raise
    say(told, *words.read(imported, sweep.plan))
    warn(told, *words.notes(imported.notes, sweep.plan.budget_unit))
    if before is not None and before["plan_id"] != sweep.plan.plan_id:
        warn(told, words.replaced(before, sweep.plan))
    root = sweep.paths.root
    say(told, f"sweep: {root}", f"  python -m isosweep mode=analyse {typed('sweep', root)}")
    if config.format == "json":
        document: dict[str, Any] = {"version": VERSION, "sweep": sweep.name, "sweep_dir": str(root)}
        document |= {"plan_id": sweep.plan.plan_id, "runs": len(sweep.plan.runs)}
        show_json(console, {**document, "imported": to_json(asdict(imported))})
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
    from isosweep.importing.completions import read_generations
    from isosweep.importing.plan import imported_plan, run_id
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
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(source[0]).stem).strip("-.")[:_LONGEST]
    root = new_root(config, f"imported-{stem}")
    paths = SweepPaths(root, Path(config.sweeps_dir).absolute() / RUNS)
    settings = _settings(config, paths, imported.source) | {
        "budget": list(plan.budgets),
        "budget_unit": plan.budget_unit,
    }
    folder = config.importing.generations
    generations = {} if folder is None else read_generations(folder, kept)
    before = store_sweep(paths, plan, kept, imported, settings)
    for run in kept:
        place = paths.run(run_id(run)).completions
        attempt_file(place, 1).unlink(missing_ok=True)
        for each in generations.get(run.name, ()):
            append_completions(place, 1, each)
    return read_sweep(paths.root), imported, before


def _settings(config: SweepConfig, paths: SweepPaths, source: Sequence[str]) -> JsonObject:
    """What is known of how the runs were trained, and what is asked of them."""
    every = config.model_dump()
    given = {name.partition(".")[0] for name in config.given}
    groups = (*_STORED, *(group for group in _IF_TYPED if group in given))
    return {
        "mode": "import",
        "sweep": [str(paths.root)],
        "sweeps_dir": str(paths.runs.parent),
        "importing": every["importing"] | {"files": list(source)},
        **{group: every[group] for group in groups},
    }
