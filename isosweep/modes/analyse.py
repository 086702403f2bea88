"""`mode=analyse`: what records say, on the terminal and as a report."""

import os
from dataclasses import replace
from os.path import relpath
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep import words
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.display_search import stored_course
from isosweep.modes.further import further_n
from isosweep.modes.terminal import say, typed
from isosweep.modes.track import asked_tracking, catch_up
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.statistics.entries import Entry


def analyse_stored(config: SweepConfig, console: Console) -> int:
    """Analyse a stored sweep as this command asks, and bring its tracking up to date; returns 0."""
    sweep = stored_sweep(config)
    # What is asked of the records is this command's to say, not the sweep's.
    tracking = asked_tracking(config, sweep.config)
    settings = replaced(sweep.config, analysis=config.analysis, tracking=tracking)
    asked = replace(sweep, config=settings)
    _require_writable(sweep)
    analyse_sweep(asked, console)
    catch_up(asked, console)
    return 0


def _require_writable(sweep: StoredSweep) -> None:
    """Raise SettingError where this user may only read the sweep."""
    root, analysis = sweep.paths.root, sweep.paths.analysis
    place = analysis if analysis.exists() else root
    if not os.access(place, os.W_OK):
        rule = f"its analysis is written into {place}, which you may only read"
        nearest = f"isosweep.open({str(root)!r}) in Python, which analyses and writes nothing"
        raise SettingError("sweep_dir", root, rule, nearest)


def analyse_sweep(sweep: StoredSweep, console: Console) -> None:
    """Analyse every variant as the settings of `analysis` say, and set them side by side."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.report import analyse
    from isosweep.analysis.statistics.entries import Entry

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    seconds = analysis_seconds(len(plan.runs), len(plan.axes))
    say(console, words.line("terminal", "analysing", len(plan.runs), seconds))
    course, named = stored_course(sweep), typed("from", sweep.reference)
    entries: list[Entry] = []
    reports: dict[str, str] = {}
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            say(console, "", f"{view}:")
        own = plan.of_axes(axes)
        # What was trained elsewhere cannot be priced here.
        priced = own.runs and sweep.kind == "planned"
        unpriced = Advice(sweep=named) if own.runs else None
        advice = _advice(own, config, named) if priced else unpriced
        analysis = analyse(replace(paths, view=view), config.analysis, axes, course, advice)
        document = analysis.answer.document()
        say(console, *words.lines("terminal", "analysis", document, analysis.report))
        entries.append(Entry.of_variant(axes, analysis.data, analysis.findings))
        reports[entries[-1].name] = str(analysis.report)
    if len(entries) > 1:
        _side_by_side(config, entries, reports, paths, console)


def analysis_seconds(runs: int, variants: int) -> float:
    """About how long an analysis takes: 15 s a variant for figures, 0.1 s a run, on one core of a
    laptop. Seconds."""
    return 15.0 * variants + 0.1 * runs


def _advice(plan: Plan, config: SweepConfig, sweep: str) -> "Advice":
    """What makes the answer of one variant's `plan` surer; `sweep`: as `from` names it."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.outlook import lacks_of, more_problems

    # The problems of a further set are none of the task.
    main = config.analysis.evaluation_set is None
    return Advice(
        lacks=lacks_of(plan, config),
        further=lambda n: further_n(plan, config, n),
        problems=(lambda count: more_problems(config, count)) if main else None,
        sweep=sweep,
    )


def _side_by_side(
    config: SweepConfig,
    entries: "list[Entry]",
    reports: dict[str, str],
    paths: SweepPaths,
    console: Console,
) -> None:
    """One report over all variants, in the place of the one that a sweep without axes has."""
    from isosweep.analysis.pages.comparison import summarise, write_comparison
    from isosweep.analysis.statistics.compare import compare

    target = replace(paths, view=config.analysis.view({}))
    comparison = compare(entries, config.analysis, "variant")
    own = {name: relpath(report, target.analysis) for name, report in reports.items()}
    formats, width = config.analysis.formats, config.analysis.figure_width
    write_comparison(comparison, entries, target, formats, reports=own, width=width)
    say(console, *summarise(comparison))
    say(console, f"variants side by side: {target.report}")
