"""`mode=analyse`: what records say, or `search=tune` found, on the terminal and as a report."""

import os
from dataclasses import asdict, replace
from os.path import relpath
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep import words
from isosweep.config.recipe import RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import to_json
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.display_search import stored_course
from isosweep.modes.further import further_n, twice_the_largest
from isosweep.modes.terminal import say, typed
from isosweep.modes.track import asked_tracking, catch_up
from isosweep.plan.cells import Plan
from isosweep.plan.value_grid import RATE
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.statistics.best_values import Tuning
    from isosweep.analysis.statistics.entries import Entry


def analyse_stored(config: SweepConfig, console: Console) -> int:
    """Analyse a stored sweep as this command asks, and bring its tracking up to date; returns 0.

    Raises SettingError where the command names another unit than that of the sweep's budgets.
    """
    sweep = stored_sweep(config)
    unit, own = config.budget_unit, sweep.config.budget_unit
    if "budget_unit" in config.given and unit != own:
        rule = (
            f"this sweep's budgets are in {own}; what it has spent is analysed by other units too"
        )
        raise SettingError("budget_unit", unit, rule, f"analysis.compute_axis={unit}")
    # What is asked of the records is this command's to say, not the sweep's.
    tracking = asked_tracking(config, sweep.config)
    settings = replace(sweep.config, analysis=config.analysis, tracking=tracking)
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
    if config.search.kind == "tune":
        _analyse_tuning(sweep, console)
        return
    course = stored_course(sweep)
    entries: list[Entry] = []
    reports: dict[str, str] = {}
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            say(console, "", f"{view}:")
        own = plan.of_axes(axes)
        # What was trained elsewhere cannot be priced here.
        priced = own.runs and sweep.kind == "planned"
        unpriced = Advice(sweep=typed("from", sweep.name)) if own.runs else None
        advice = _advice(own, config, paths) if priced else unpriced
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


def _analyse_tuning(sweep: StoredSweep, console: Console) -> None:
    """Say which values are best, how surely, and what to start the grid with."""
    from isosweep.analysis.load import load_view
    from isosweep.analysis.pages.what_to_set import as_overrides, write_tuning
    from isosweep.analysis.statistics.best_values import find_tuning
    from isosweep.analysis.tuned import tuned_cells

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    # On the plan's own budgets: below them a value that was ended early has no place.
    asked = replace(config.analysis, readings_per_decade=0, decades=0.0)
    cells = tuned_cells(plan, [load_view(paths, asked, axes) for axes in plan.axes])
    rule = config.recipe.learning_rate_rule if set(config.grid.axes or {}) == {RATE} else None
    tuning = find_tuning(cells, asked, rule)
    handed = settings_for_the_grid(tuning, config.recipe, asked.margin)
    target = replace(paths, view=asked.view({}))
    course = stored_course(sweep)
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


def _advice(plan: Plan, config: SweepConfig, paths: SweepPaths) -> "Advice":
    """What makes the answer of one variant's `plan` surer."""
    from isosweep.analysis.conclude import Advice
    from isosweep.analysis.outlook import more_problems, outlook

    # A further set is no part of a run: its problems are not priced.
    main = config.analysis.evaluation_set is None
    return Advice(
        outlook=outlook(plan, config, twice_the_largest),
        further=lambda n: further_n(plan, config, n),
        problems=(lambda count: more_problems(plan, config, count)) if main else None,
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
