"""`mode=analyse`: what a sweep's records say, on the terminal and as a report."""

from dataclasses import replace
from os.path import relpath
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.modes.display_search import stored_course
from isosweep.modes.further import further_n
from isosweep.modes.terminal import typed
from isosweep.modes.tuning import analyse_tuning
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.report import Analysis
    from isosweep.analysis.statistics.entries import Entry


def analyse_sweep(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Analyse every variant of the plan as `config.analysis` says, and set them side by side;
    returns 0."""
    from isosweep.analysis.report import analyse
    from isosweep.analysis.statistics.entries import Entry

    if config.search.kind == "tune":
        return analyse_tuning(config, plan, paths, console)
    course = stored_course(config, plan, paths)
    entries: list[Entry] = []
    reports: dict[str, str] = {}
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            console.print(f"{view}:", markup=False)
        own = plan.of_axes(axes)
        advice = _advice(own, config, paths) if own.runs else None
        analysis = analyse(replace(paths, view=view), config.analysis, axes, course, advice)
        _show(analysis, console)
        entries.append(Entry.of_variant(axes, analysis.data, analysis.findings))
        reports[entries[-1].name] = str(analysis.report)
    if len(entries) > 1:
        _side_by_side(config, entries, reports, paths, console)
    return 0


def _advice(plan: Plan, config: SweepConfig, paths: SweepPaths) -> "Advice":
    """What makes the answer of one variant's `plan` surer."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.outlook import outlook

    return Advice(
        outlook=outlook(plan, config),
        further=lambda n: further_n(plan, config, n),
        sweep=typed("from", paths.root.name),
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
    for sentence in summarise(comparison):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"variants side by side: {target.report}", soft_wrap=True)


def _show(analysis: "Analysis", console: Console) -> None:
    document = analysis.answer.document()
    for line in words.lines("terminal", "analysis", document, analysis.report):
        console.print(line, markup=False, soft_wrap=True)
