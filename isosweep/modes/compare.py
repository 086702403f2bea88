"""`mode=compare`: sweeps, and variants of each, side by side."""

import hashlib
from dataclasses import replace
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep
from isosweep.modes.sources import named_sweeps
from isosweep.modes.terminal import say
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.statistics.compare import Comparison
    from isosweep.analysis.statistics.entries import Entry


def compare_sweeps(config: SweepConfig, console: Console) -> int:
    """Compare the sweeps of `from`; returns 0. Raises SettingError where they cannot be."""
    from isosweep.analysis.pages.comparison import doubts, write_comparison
    from isosweep.analysis.statistics.compare import compare

    sweeps = named_sweeps(config)
    roots = {sweep.paths.root.resolve(): name for name, sweep in sweeps}
    if len(roots) < len(sweeps):
        nearest = f"from=[{','.join(roots.values())}]"
        raise SettingError("from", config.from_sweep, "names a sweep twice", nearest)
    entries = _entries(config, sweeps, console)
    _require_comparable(config, entries)
    comparison = compare(entries, config.analysis)
    shared = "|".join(name for name, _ in sweeps)
    digest = hashlib.sha256(shared.encode()).hexdigest()[:8]
    root = Path(config.sweeps_dir).absolute() / f"comparison-{digest}"
    target = SweepPaths(root, root.parent / "runs")
    own = _reports(config, sweeps, [entry.name for entry in entries], target)
    formats, width = config.analysis.formats, config.analysis.figure_width
    write_comparison(comparison, entries, target, formats, reports=own, width=width)
    _show_comparison(comparison, console)
    say(console, *doubts(comparison))
    say(console, f"comparison: {target.report}")
    return 0


def _entries(
    config: SweepConfig, sweeps: list[tuple[str, StoredSweep]], console: Console
) -> "list[Entry]":
    from isosweep.analysis.load import load_view
    from isosweep.analysis.statistics.entries import Entry, sweep_labels
    from isosweep.analysis.statistics.findings import find

    loaded = [
        [(axes, load_view(sweep.paths, config.analysis, axes)) for axes in sweep.plan.axes]
        for _, sweep in sweeps
    ]
    names = [name for name, _ in sweeps]
    labels = sweep_labels(names, [of[0][1].config_document for of in loaded])
    for name, label in zip(names, labels, strict=True):
        if label != name:
            say(console, f"{label}: {name}")
    return [
        Entry.of_variant(axes, data, find(data, config.analysis), sweep=label)
        for label, of in zip(labels, loaded, strict=True)
        for axes, data in of
    ]


def _require_comparable(config: SweepConfig, entries: "list[Entry]") -> None:
    if len(entries) < 2:
        rule = "names one sweep; a comparison needs two"
        raise SettingError("from", config.from_sweep, rule, "from=[SWEEP,SWEEP]")
    units = sorted({entry.data.plan.budget_unit for entry in entries})
    if len(units) > 1:
        rule = f"the sweeps' budgets are in {' and '.join(units)}"
        raise SettingError("from", config.from_sweep, rule, "analysis.compute_axis=flops")


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


def _show_comparison(comparison: "Comparison", console: Console) -> None:
    """Print the best of every sweep at every budget, and its verdict."""
    table = Table(
        *("sweep", f"budget ({comparison.unit})", "n", "B", "n*", "n_d"),
        *("reward", "interval", "better"),
    )
    for at in comparison.frontiers:
        interval = "" if at.interval is None else f"{at.interval[0]:.3f} to {at.interval[1]:.3f}"
        table.add_row(
            at.entry,
            f"{at.budget:.3g}",
            str(at.best_n),
            str(at.best_batch),
            *("" if found is None else found.words for found in (at.n_star, at.n_d)),
            f"{at.reward:.3f}",
            interval,
            "" if at.better is None else f"{at.better:.0%}",
        )
    console.print(table)
    say(console, "n, B: the best that ran; n*: the best n; n_d: the smallest n that is good enough")
    say(console, "better: probability that the best reward lies above the first sweep's")
    for name, verdict in comparison.verdicts.items():
        say(console, f"{name}: {verdict}")
