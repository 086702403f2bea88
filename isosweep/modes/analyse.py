"""`mode=analyse`: what records say, or `search=tune` found, on the terminal and as a report."""

from dataclasses import asdict, replace
from os.path import relpath
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep import words
from isosweep.config.recipe import RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.files import to_json
from isosweep.modes.display_search import stored_course
from isosweep.modes.further import further_n
from isosweep.modes.terminal import say, typed
from isosweep.plan.cells import Plan
from isosweep.plan.value_grid import RATE
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.report import Analysis
    from isosweep.analysis.statistics.best_values import Tuning
    from isosweep.analysis.statistics.entries import Entry


def analyse_sweep(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Analyse every variant of the plan as `config.analysis` says, and set them side by side;
    returns 0."""
    from isosweep.analysis.report import analyse
    from isosweep.analysis.statistics.entries import Entry

    if config.search.kind == "tune":
        return _analyse_tuning(config, plan, paths, console)
    course = stored_course(config, plan, paths)
    entries: list[Entry] = []
    reports: dict[str, str] = {}
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            say(console, f"{view}:")
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
    say(console, *summarise(comparison))
    say(console, f"variants side by side: {target.report}")


def _show(analysis: "Analysis", console: Console) -> None:
    document = analysis.answer.document()
    say(console, *words.lines("terminal", "analysis", document, analysis.report))


def _analyse_tuning(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Say which values are best, how surely, and what to start the grid with; returns 0."""
    from isosweep.analysis.load import load_view
    from isosweep.analysis.pages.what_to_set import as_overrides, write_tuning
    from isosweep.analysis.statistics.best_values import find_tuning
    from isosweep.analysis.tuned import tuned_cells

    # On the plan's own budgets: below them a value that was ended early has no place.
    asked = replace(config.analysis, readings_per_decade=0, decades=0.0)
    cells = tuned_cells(plan, [load_view(paths, asked, axes) for axes in plan.axes])
    rule = config.recipe.learning_rate_rule if set(config.grid.axes or {}) == {RATE} else None
    tuning = find_tuning(cells, asked, rule)
    handed = settings_for_the_grid(tuning, config.recipe, asked.margin)
    target = replace(paths, view=asked.view({}))
    course = stored_course(config, plan, paths)
    write_tuning(
        tuning, cells, target, asked.formats, handed=handed, margin=asked.margin, course=course
    )
    say(console, *words.lines("tuning", "summary", to_json(asdict(tuning)), asked.margin))
    if handed:
        line = f"for the grid, in the place of search=tune: {as_overrides(handed)}"
        if "recipe.learning_rate_rule" in handed:
            line += f" (at the anchor still {tuning.cells[0].best.values[RATE]:g})"
        say(console, line)
    say(console, f"report: {target.report}")
    return 0


def settings_for_the_grid(
    tuning: "Tuning", recipe: RecipeConfig, margin: float
) -> dict[str, object]:
    """Dotted settings: the anchor's best values, and another rule of the learning rate where the
    recipe's own does not agree with the second cell and costs more than `margin` there. None where
    nothing was learned, or values were not tried at all."""
    if not tuning.cells or tuning.untried or not tuning.cells[0].learns(tuning.base_reward):
        return {}
    anchor = tuning.cells[0]
    values: dict[str, object] = dict(anchor.best.values)
    own = recipe.learning_rate_rule
    refuted = any(rule.rule == own and rule.agrees is False for rule in tuning.rules)
    losses = {
        r.rule: r.loss for r in tuning.rules if r.loss is not None and (r.agrees or r.rule == own)
    }
    if not refuted or losses.get(own, 1.0) <= margin:
        return values
    best = min(losses, key=lambda rule: losses[rule])
    if best == own:
        return values
    exponents = {rule.rule: rule.exponent for rule in tuning.rules}
    completions = anchor.num_generations * anchor.problems_per_batch / recipe.mini_batches
    ratio = completions / recipe.reference_completions
    # The same rate at the anchor.
    rate = anchor.best.values[RATE] * ratio ** (exponents[own] - exponents[best])
    return {**values, RATE: float(f"{rate:.4g}"), "recipe.learning_rate_rule": best}
