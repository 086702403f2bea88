"""Modes that only ask of what has been measured or planned: nothing here starts a run."""

import hashlib
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.difficulty.variants import variants
from isosweep.errors import SettingError
from isosweep.files import read_json, write_json
from isosweep.modes.directory import stored_sweep
from isosweep.modes.display_results import show_comparison, show_power, show_recommendation
from isosweep.plan.cells import Plan, plan_from_document
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.report import Analysis


def analyse_sweep(config: SweepConfig, paths: SweepPaths, console: Console) -> int:
    from isosweep.analysis.report import analyse

    plan = plan_from_document(read_json(paths.plan) or {})
    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            console.print(f"{view}:", markup=False)
        _tell(analyse(replace(paths, view=view), config.analysis, axes), console)
    return 0


def _named_sweeps(config: SweepConfig) -> list[tuple[str, SweepConfig, Plan, SweepPaths]]:
    """The sweeps of `from`, or the one of `sweep_dir`: name, settings, plan and files."""
    if config.from_sweep is None:
        stored, plan, paths = stored_sweep(config)
        return [(paths.root.name, stored, plan, paths)]
    roots = [
        Path(name) if (Path(name) / "plan.json").exists() else Path(config.sweeps_dir) / name
        for name in config.from_sweep
    ]
    # Directories of one name are told apart by how they were given.
    alike = len({root.name for root in roots}) < len(roots)
    found = []
    for given, root in zip(config.from_sweep, roots, strict=True):
        stored, plan, paths = stored_sweep(replace(config, sweep_dir=str(root)))
        found.append((given if alike else root.name, stored, plan, paths))
    return found


def compare_sweeps(config: SweepConfig, console: Console) -> int:
    """Set sweeps, and variants of each, side by side."""
    from isosweep.analysis.load import load_view
    from isosweep.analysis.pages.comparison import write_comparison
    from isosweep.analysis.statistics.compare import Entry, compare
    from isosweep.analysis.statistics.findings import find

    entries = []
    sweeps = _named_sweeps(config)
    for name, stored, _, paths in sweeps:
        for variant in variants(stored):
            axes = variant.axes
            data = load_view(paths, config.analysis, axes)
            told = [f"{setting}={value}" for setting, value in axes.items()]
            size = float(variant.config.model.architecture.parameters)
            findings = find(data, config.analysis)
            label = " ".join([name, *told])
            entries.append(Entry(name=label, data=data, findings=findings, parameters=size))
    if len(entries) < 2:
        known = sorted(p.parent.name for p in Path(config.sweeps_dir).glob("*/plan.json"))
        nearest = f"from=[{','.join(known[:2])}]" if len(known) > 1 else "from=[SWEEP,SWEEP]"
        raise SettingError(
            "from", config.from_sweep, "names one sweep; a comparison needs two", nearest
        )
    units = sorted({entry.data.plan.budget_unit for entry in entries})
    if len(units) > 1:
        rule = f"the sweeps' budgets are in {' and '.join(units)}"
        raise SettingError("from", config.from_sweep, rule, "analysis.compute_axis=flops")
    found = compare(entries, config.analysis.confidence)
    shared = "|".join(entry.name for entry in entries)
    digest = hashlib.sha256(shared.encode()).hexdigest()[:8]
    root = Path(config.sweeps_dir).absolute() / f"comparison-{digest}"
    target = SweepPaths(root, root.parent / "runs")
    write_comparison(found, entries, target, config.analysis.formats)
    show_comparison(found, console)
    console.print(f"comparison: {target.report}", soft_wrap=True)
    return 0


def recommend_split(config: SweepConfig, console: Console) -> int:
    """Say how to split each budget, from what the sweep has measured."""
    from isosweep.analysis.load import load_view
    from isosweep.analysis.statistics.findings import find
    from isosweep.analysis.statistics.recommend import recommend

    (_, _, plan, paths), *more = _named_sweeps(config)
    if more:
        rule = "a recommendation rests on one sweep"
        raise SettingError("from", config.from_sweep, rule, f"from={paths.root.name}")
    for axes in plan.axes:
        view = replace(paths, view=config.analysis.view(axes))
        if view.view:
            console.print(f"{view.view}:", markup=False)
        data = load_view(view, config.analysis, axes)
        findings = find(data, config.analysis)
        extrapolate = config.analysis.extrapolate
        found = [
            recommend(data, findings, budget, extrapolate=extrapolate) for budget in config.budgets
        ]
        for split in found:
            show_recommendation(split, plan.budget_unit, config.analysis.confidence, console)
        document = {"version": 1, "plan_id": plan.plan_id, "confidence": config.analysis.confidence}
        split_documents = [asdict(split) for split in found]
        view.analysis.mkdir(parents=True, exist_ok=True)
        write_json(view.recommendation, {**document, "recommendations": split_documents})
        console.print(f"recommendation: {view.recommendation}", soft_wrap=True)
    return 0


def simulate_sweeps(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Say what the plan could find, world by world; `simulation.json` keeps it."""
    from isosweep.analysis.simulation.power import measure_power
    from isosweep.analysis.simulation.worlds import worlds

    if len(plan.axes) > 1:
        raise SettingError("grid.axes", "set", "a simulation has no further axes", "grid.axes=null")
    settings = config.simulation
    generations = [cell.num_generations for cell in plan.cells]
    presets = worlds(
        settings.midpoint or math.sqrt(plan.budgets[0] * plan.budgets[-1]),
        smallest_n=min(generations),
        largest_n=max(generations),
    )
    found = []
    for name in settings.worlds:
        power = measure_power(
            plan,
            presets[name],
            config.analysis,
            sweeps=settings.sweeps,
            seed=settings.seed,
            num_problems=config.task.num_eval_problems,
            samples_per_problem=config.evaluation.samples_per_problem,
        )
        found.append(power)
        show_power(power, console)
    document = {"version": 1, "plan_id": plan.plan_id, "settings": asdict(settings)}
    write_json(paths.simulation, {**document, "worlds": [asdict(power) for power in found]})
    console.print(f"simulation: {paths.simulation}", soft_wrap=True)
    return 0


def _tell(analysis: "Analysis", console: Console) -> None:
    console.print(f"verdict: {analysis.verdict}: {analysis.reason}", markup=False, soft_wrap=True)
    for sentence in analysis.summary:
        console.print(sentence, markup=False, soft_wrap=True)
    if analysis.base_reward is not None and analysis.best_reward is not None:
        console.print(
            f"held-out reward: {analysis.base_reward:.3f} before training, "
            f"{analysis.best_reward:.3f} at the best cell"
        )
    console.print(f"report: {analysis.report}", soft_wrap=True)
