"""`mode=analyse`: what a sweep's records say, on the terminal and as a report."""

from dataclasses import replace
from os.path import relpath
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.modes.display_search import stored_course
from isosweep.modes.findings import surer
from isosweep.modes.further import further_n
from isosweep.modes.terminal import typed
from isosweep.modes.tuning import analyse_tuning
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.report import Analysis
    from isosweep.analysis.statistics.entries import Entry


def analyse_sweep(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Analyse every variant of the plan as `config.analysis` says, and set them side by side;
    returns 0."""
    from isosweep.analysis.answer import Advice
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
        advice = Advice()
        if own.runs:
            surer_by = (*surer(own, config), _single_runs(paths))

            def further(n: int, own: Plan = own) -> str:
                return str(further_n(own, config, n))

            advice = Advice(surer=surer_by, further=further)
        analysis = analyse(replace(paths, view=view), config.analysis, axes, course, advice)
        _show(analysis, console)
        entries.append(Entry.of_variant(axes, analysis.data, analysis.findings))
        reports[entries[-1].name] = str(analysis.report)
    if len(entries) > 1:
        _side_by_side(config, entries, reports, paths, console)
    return 0


def _single_runs(paths: SweepPaths) -> str:
    """Where single runs are valued."""
    command = f"python -m isosweep mode=next {typed('from', paths.root.name)}"
    return f"Further runs one by one, with what each is worth and costs: {command}"


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
    from isosweep.analysis.figures.axes import rewarded

    console.print(f"verdict: {analysis.verdict}: {analysis.reason}", markup=False, soft_wrap=True)
    for sentence in analysis.summary:
        console.print(sentence, markup=False, soft_wrap=True)
    if analysis.base_reward is not None and analysis.best_reward is not None:
        console.print(
            f"{rewarded(analysis.data)}: {analysis.base_reward:.3f} before training, "
            f"{analysis.best_reward:.3f} at the best cell"
        )
    console.print(f"report: {analysis.report}", soft_wrap=True)
