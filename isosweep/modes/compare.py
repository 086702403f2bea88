"""`mode=compare`: sweeps, and variants of each, side by side."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.display_results import show_comparison
from isosweep.modes.sources import named_sweeps
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.statistics.compare import Entry


def compare_sweeps(config: SweepConfig, console: Console) -> int:
    """Compare the sweeps of `from`; returns 0. Raises SettingError where they cannot be."""
    from isosweep.analysis.pages.comparison import write_comparison
    from isosweep.analysis.statistics.compare import compare

    entries = _entries(config)
    _require_comparable(config, entries)
    comparison = compare(entries, config.analysis.confidence)
    shared = "|".join(entry.name for entry in entries)
    digest = hashlib.sha256(shared.encode()).hexdigest()[:8]
    root = Path(config.sweeps_dir).absolute() / f"comparison-{digest}"
    target = SweepPaths(root, root.parent / "runs")
    write_comparison(comparison, entries, target, config.analysis.formats)
    show_comparison(comparison, console)
    console.print(f"comparison: {target.report}", soft_wrap=True)
    return 0


def _entries(config: SweepConfig) -> "list[Entry]":
    from isosweep.analysis.load import load_view
    from isosweep.analysis.statistics.compare import Entry
    from isosweep.analysis.statistics.findings import find

    entries = []
    for name, sweep in named_sweeps(config):
        for axes in sweep.plan.axes:
            data = load_view(sweep.paths, config.analysis, axes)
            findings = find(data, config.analysis)
            entries.append(Entry.of_variant(axes, data, findings, sweep=name))
    return entries


def _require_comparable(config: SweepConfig, entries: "list[Entry]") -> None:
    if len(entries) < 2:
        known = sorted(p.parent.name for p in Path(config.sweeps_dir).glob("*/plan.json"))
        nearest = f"from=[{','.join(known[:2])}]" if len(known) > 1 else "from=[SWEEP,SWEEP]"
        rule = "names one sweep; a comparison needs two"
        raise SettingError("from", config.from_sweep, rule, nearest)
    units = sorted({entry.data.plan.budget_unit for entry in entries})
    if len(units) > 1:
        rule = f"the sweeps' budgets are in {' and '.join(units)}"
        raise SettingError("from", config.from_sweep, rule, "analysis.compute_axis=flops")
