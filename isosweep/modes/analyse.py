"""`mode=analyse`: what a sweep's records say; `mode=compare`: several sweeps side by side."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import GridConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, to_json
from isosweep.modes.display_search import stored_course
from isosweep.modes.sweeps import StoredSweep, named_sweeps, stored_sweep
from isosweep.modes.terminal import aligned, progress_console, say, show_json, typed
from isosweep.modes.tracking import asked_tracking, catch_up
from isosweep.plan.cells import Plan
from isosweep.reserved import COMPARISON, RUNS
from isosweep.store.paths import SweepPaths
from isosweep.words.answer import analysis as described
from isosweep.words.completions import sign
from isosweep.words.plan import analysing

if TYPE_CHECKING:
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.statistics.compare import Comparison, Entry

# Raised when a field of a document goes or changes its meaning; fields may be added.
VERSION: Final = 1
# An analysis takes about so many seconds for the figures of a variant, and for a run, on one core
# of a laptop.
_FIGURES_S, _RUN_S = 7.0, 0.05


def analyse_stored(config: SweepConfig, console: Console) -> int:
    """Analyse a stored sweep as this command asks, and bring its tracking up to date; returns 0."""
    stored = stored_sweep(config)
    told = progress_console(config, console)
    tracking = asked_tracking(config, stored.config)
    settings = replaced(stored.config, analysis=config.analysis, tracking=tracking)
    sweep = replace(stored, config=settings)
    root, place = sweep.paths.root, sweep.paths.analysis
    place = place if place.exists() else root
    if not os.access(place, os.W_OK):
        rule = f"its analysis is written into {place}, which you may only read"
        nearest = f"isosweep.open({str(root)!r}) in Python, which analyses and writes nothing"
        raise SettingError("sweep", root, rule, nearest)
    variants = analyse_sweep(sweep, told)
    catch_up(sweep, told)
    if config.format == "json":
        named = {"version": VERSION, "sweep": sweep.name, "sweep_dir": str(root)}
        show_json(console, {**named, "variants": variants})
    return 0


def analyse_sweep(sweep: StoredSweep, console: Console) -> list[JsonObject]:
    """Analyse every variant as the settings of `analysis` say, and set them side by side; return
    the values of `grid.axes`, the answer and the report's path of each."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.report import analyse
    from isosweep.analysis.statistics.compare import Entry

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    _say_beginning([sweep], console)
    course, named = stored_course(sweep), typed("sweep", sweep.reference)
    entries: list[Entry] = []
    variants: list[JsonObject] = []
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            say(console, "", f"{view}:")
        own = plan.of_axes(axes)
        advice = Advice(sweep=named) if own.runs else None
        if own.runs and sweep.kind == "planned":
            advice = advice_on(own, config, named)
        analysis = analyse(replace(paths, view=view), config.analysis, axes, course, advice)
        document = analysis.answer.document()
        say(console, *described(analysis.answer, analysis.report))
        say(console, *(f"look: {sign(found)}" for found in analysis.signs))
        entries.append(Entry.of_variant(axes, analysis.data, analysis.findings))
        variants.append({"axes": axes, "answer": document, "report": str(analysis.report)})
    if len(entries) > 1:
        target = replace(paths, view=config.analysis.view({}))
        reports = [Path(each["report"]) for each in variants]
        _set_side_by_side(entries, reports, target, config, "variant", console)
    return variants


def _say_beginning(sweeps: Sequence[StoredSweep], console: Console) -> None:
    runs = sum(len(sweep.plan.runs) for sweep in sweeps)
    variants = sum(len(sweep.plan.axes) for sweep in sweeps)
    seconds = _FIGURES_S * variants + _RUN_S * runs
    say(console, analysing(runs, seconds))


def advice_on(plan: Plan, config: SweepConfig, sweep: str) -> "Advice":
    """Return what makes the answer of one variant's `plan` surer; `sweep`: the setting that names
    the sweep, as it is typed."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.outlook import lacks_of, more_problems

    # The problems of a further set are none of the task.
    main = config.analysis.evaluation_set is None
    return Advice(
        lacks=lacks_of(plan, config),
        further=lambda n: settings_with(config.grid, n),
        problems=(lambda count: more_problems(config, count)) if main else None,
        sweep=sweep,
    )


def settings_with(grid: GridConfig, n: int) -> dict[str, Any]:
    """Return the settings of `grid` with `n` added, and where n x B is fixed the B that go with it;
    none where the grid has `n` already, so that its rules keep it out."""
    if n in grid.num_generations:
        return {}
    settings = {"num_generations": sorted({*grid.num_generations, n})}
    batches = {each // n for each in grid.completions_per_step or () if each % n == 0}
    if not batches <= set(grid.problems_per_batch):
        settings["problems_per_batch"] = sorted({*grid.problems_per_batch, *batches})
    return settings


def compare_sweeps(config: SweepConfig, console: Console) -> int:
    """Compare the sweeps; returns 0. Raises SettingError where they cannot be."""
    from isosweep.analysis.load import load_sweep
    from isosweep.analysis.statistics.compare import Entry, sweep_labels
    from isosweep.analysis.statistics.findings import find

    named, told = named_sweeps(config), progress_console(config, console)
    names, sweeps = zip(*named, strict=True)
    once = len({sweep.paths.root.resolve() for sweep in sweeps}) == len(sweeps)
    if sum(len(sweep.plan.axes) for sweep in sweeps) < 2 or not once:
        rule = "a comparison needs two sweeps, each named once"
        raise SettingError("sweep", config.sweep, rule, "sweep=[SWEEP,SWEEP]")
    _say_beginning(sweeps, told)
    loaded = [
        [load_sweep(sweep.paths, config.analysis, axes) for axes in sweep.plan.axes]
        for sweep in sweeps
    ]
    if len(units := sorted({data.plan.budget_unit for own in loaded for data in own})) > 1:
        rule = f"the sweeps' budgets are in {' and '.join(units)}"
        raise SettingError("sweep", config.sweep, rule, "analysis.compute_axis=flops")
    labels = sweep_labels(names, [own[0].config_document for own in loaded])
    entries = [
        Entry.of_variant(axes, data, find(data, config.analysis), sweep=label)
        for sweep, label, own in zip(sweeps, labels, loaded, strict=True)
        for axes, data in zip(sweep.plan.axes, own, strict=True)
    ]
    digest = hashlib.sha256("|".join(names).encode()).hexdigest()[:8]
    root = Path(config.sweeps_dir).absolute() / f"{COMPARISON}{digest}"
    target = SweepPaths(root, root.parent / RUNS)
    reports = [
        replace(sweep.paths, view=config.analysis.view(axes)).report
        for sweep in sweeps
        for axes in sweep.plan.axes
    ]
    comparison = _set_side_by_side(entries, reports, target, config, "sweep", told)
    if config.format == "json":
        where = {label: str(sweep.paths.root) for label, sweep in zip(labels, sweeps, strict=True)}
        document = {"version": VERSION, "sweeps": where, "report": str(target.report)}
        show_json(console, document | {"comparison": to_json(asdict(comparison))})
    return 0


def _set_side_by_side(
    entries: "Sequence[Entry]",
    reports: Sequence[Path],
    target: SweepPaths,
    config: SweepConfig,
    kind: Any,
    console: Console,
) -> "Comparison":
    """Compare the entries, write that into `target`, and print each at the largest budget that all
    have reached. `reports`: the entries' own pages; `kind`: sweep or variant."""
    from isosweep.analysis.pages.comparison import (
        best_table,
        last_shared,
        summarise,
        write_comparison,
    )
    from isosweep.analysis.statistics.compare import compare

    comparison = compare(entries, config.analysis, kind)
    pages = {
        entry.name: relpath(page, target.analysis)
        for entry, page in zip(entries, reports, strict=True)
        if page.exists()
    }
    write_comparison(comparison, entries, target, config.analysis.formats, reports=pages)
    say(console, *summarise(comparison))
    if shared := last_shared(comparison):
        table = best_table(comparison, shared)
        say(console, *aligned([table.head, *table.rows], left=len(table.head)))
        meant = "n*: the best n; n_d: the smallest n that is good enough"
        say(console, f"{meant}; better: probability that the reward lies above the first one's")
    say(console, f"side by side, at all budgets: {target.report}")
    return comparison
