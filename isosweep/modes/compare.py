"""`mode=compare`: sweeps, and variants of each, side by side."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os.path import relpath
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.analyse import analysis_seconds
from isosweep.modes.directory import StoredSweep, named_sweeps
from isosweep.modes.terminal import aligned, say
from isosweep.reserved import COMPARISON, RUNS
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import short

if TYPE_CHECKING:
    from isosweep.analysis.statistics.compare import AtBudget, Comparison
    from isosweep.analysis.statistics.entries import Entry

# Rows of the table, which fits a screen of 40 lines with what is said beside it.
_ROWS = 18
_NAMED = 12
# And what the report's summary begins with, doubts first.
_SENTENCES = 5
_HEADING = ("", "n", "B", "n*", "reward", "better")


def compare_sweeps(config: SweepConfig, console: Console) -> int:
    """Compare the sweeps of `from`; returns 0. Raises SettingError where they cannot be."""
    from isosweep.analysis.pages.comparison import summarise, write_comparison
    from isosweep.analysis.statistics.compare import compare

    sweeps = named_sweeps(config)
    roots = {sweep.paths.root.resolve(): name for name, sweep in sweeps}
    if len(roots) < len(sweeps):
        named = [*roots.values()] if len(roots) > 1 else ["SWEEP", "SWEEP"]
        nearest = f"from=[{','.join(named)}]"
        raise SettingError("from", config.from_sweep, "names a sweep twice", nearest)
    runs = sum(len(sweep.plan.runs) for _, sweep in sweeps)
    variants = sum(len(sweep.plan.axes) for _, sweep in sweeps)
    if variants < 2:
        rule = "is one sweep; a comparison needs two"
        raise SettingError("from", config.from_sweep, rule, "from=[SWEEP,SWEEP]")
    say(console, words.line("terminal", "analysing", runs, analysis_seconds(runs, variants)))
    entries, places = _entries(config, sweeps)
    if len(units := sorted({entry.data.plan.budget_unit for entry in entries})) > 1:
        rule = f"the sweeps' budgets are in {' and '.join(units)}"
        raise SettingError("from", config.from_sweep, rule, "analysis.compute_axis=flops")
    comparison = compare(entries, config.analysis)
    shared = "|".join(name for name, _ in sweeps)
    digest = hashlib.sha256(shared.encode()).hexdigest()[:8]
    root = Path(config.sweeps_dir).absolute() / f"{COMPARISON}{digest}"
    target = SweepPaths(root, root.parent / RUNS)
    own = _reports(config, sweeps, [entry.name for entry in entries], target)
    formats, width = config.analysis.formats, config.analysis.figure_width
    write_comparison(comparison, entries, target, formats, reports=own, width=width)
    letters = _lettered(comparison.verdicts)
    for name, verdict in list(comparison.verdicts.items())[:_NAMED]:
        say(console, f"{letters[name]}: {name}{places[name]}; verdict: {verdict}")
    if (more := len(comparison.verdicts) - _NAMED) > 0:
        say(console, f"and {more} more, in the report")
    for sentence in summarise(comparison)[:_SENTENCES]:
        for name in sorted(letters, key=len, reverse=True):
            sentence = sentence.replace(name, letters[name])
        say(console, sentence)
    _show_comparison(comparison, letters, console)
    say(console, f"report: {target.report}")
    return 0


def _entries(
    config: SweepConfig, sweeps: list[tuple[str, StoredSweep]]
) -> "tuple[list[Entry], dict[str, str]]":
    """The entries, and the sweep of each that has another name."""
    from isosweep.analysis.load import load_view
    from isosweep.analysis.statistics.entries import Entry, sweep_labels
    from isosweep.analysis.statistics.findings import find

    loaded = [
        [(axes, load_view(sweep.paths, config.analysis, axes)) for axes in sweep.plan.axes]
        for _, sweep in sweeps
    ]
    names = [name for name, _ in sweeps]
    labels = sweep_labels(names, [of[0][1].config_document for of in loaded])
    entries: dict[str, Entry] = {}
    places: dict[str, str] = {}
    for name, label, of in zip(names, labels, loaded, strict=True):
        for axes, data in of:
            entry = Entry.of_variant(axes, data, find(data, config.analysis), sweep=label)
            entries[entry.name], places[entry.name] = entry, "" if label == name else f" ({name})"
    return list(entries.values()), places


def _reports(
    config: SweepConfig,
    sweeps: list[tuple[str, StoredSweep]],
    names: list[str],
    target: SweepPaths,
) -> dict[str, str]:
    """Where the entries' own pages lie from the comparison's, of those that have one."""
    pages = [
        replace(sweep.paths, view=config.analysis.view(axes)).report
        for _, sweep in sweeps
        for axes in sweep.plan.axes
    ]
    return {
        name: relpath(page, target.analysis)
        for name, page in zip(names, pages, strict=True)
        if page.exists()
    }


def _show_comparison(
    comparison: "Comparison", letters: Mapping[str, str], console: Console
) -> None:
    """Print the best of every sweep, at the budgets that most have reached."""
    every: dict[float, list[AtBudget]] = {}
    for at in comparison.frontiers:
        every.setdefault(at.budget, []).append(at)
    most = max((len(found) for found in every.values()), default=0)
    shared = sorted(budget for budget, found in every.items() if len(found) == most)
    rows = [("", *_HEADING)]
    for budget in _spread(shared, max(1, _ROWS // max(1, most))):
        for at in every[budget][:_ROWS]:
            ends = "" if at.interval is None else " ({:.3f} to {:.3f})".format(*at.interval)
            rows.append(
                (
                    short(budget) if at is every[budget][0] else "",
                    letters[at.entry],
                    str(at.best_n),
                    str(at.best_batch),
                    "" if at.n_star is None else at.n_star.words,
                    f"{at.reward:.3f}{ends}",
                    "" if at.better is None else f"{at.better:.0%}",
                )
            )
    say(console, f"budget in {comparison.unit}; n, B: the best that ran; n*: the best n")
    say(console, *aligned(rows, left=len(rows[0])))
    say(console, "better: probability that the reward lies above A's")
    if len(shared) * most > len(rows):
        say(console, f"all {len(shared)} budgets: the report")


def _spread(budgets: list[float], most: int) -> list[float]:
    """At most so many of them, the largest among them, and as far apart as they go."""
    if len(budgets) <= most:
        return budgets
    step = len(budgets) / most
    return [budgets[len(budgets) - 1 - int(i * step)] for i in reversed(range(most))]


def _lettered(names: Iterable[str]) -> dict[str, str]:
    """A, B, ..., Z, AA, ... of the entries."""
    places = (f"{a}{b}" for a in ("", *ascii_uppercase) for b in ascii_uppercase)
    return dict(zip(names, places, strict=False))
