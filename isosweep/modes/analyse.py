"""`mode=analyse`: what a sweep's records say, on the terminal and as a report."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from isosweep.analysis.report import Analysis


def analyse_sweep(config: SweepConfig, plan: Plan, paths: SweepPaths, console: Console) -> int:
    """Analyse every variant of the plan as `config.analysis` says; returns 0."""
    from isosweep.analysis.report import analyse

    for axes in plan.axes:
        view = config.analysis.view(axes)
        if view:
            console.print(f"{view}:", markup=False)
        _show(analyse(replace(paths, view=view), config.analysis, axes), console)
    return 0


def _show(analysis: "Analysis", console: Console) -> None:
    console.print(f"verdict: {analysis.verdict}: {analysis.reason}", markup=False, soft_wrap=True)
    for sentence in analysis.summary:
        console.print(sentence, markup=False, soft_wrap=True)
    if analysis.base_reward is not None and analysis.best_reward is not None:
        console.print(
            f"held-out reward: {analysis.base_reward:.3f} before training, "
            f"{analysis.best_reward:.3f} at the best cell"
        )
    console.print(f"report: {analysis.report}", soft_wrap=True)
