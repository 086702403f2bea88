"""Results of simulations, recommendations and comparisons, on a terminal."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from isosweep import words
from isosweep.words.numbers import in_hours

if TYPE_CHECKING:
    from isosweep.analysis.simulation.designs import Search
    from isosweep.analysis.simulation.power import Power
    from isosweep.analysis.statistics.compare import Comparison


def show_power(power: "Power", console: Console) -> None:
    """Print what the analysis made of one simulated world."""
    for line in words.lines("simulation", "power", power):
        console.print(line, soft_wrap=True)
    table = Table(
        "budget", "best n", "interval covers", "doublings", "set covers", "n in it", "lost"
    )
    for at in power.budgets:
        table.add_row(
            f"{at.budget:.3g}",
            "any" if at.best_n is None else f"{at.best_n:.3g}",
            "" if at.covered is None else f"{at.covered:.0%}",
            "" if at.width is None else f"{at.width:.1f}",
            f"{at.held:.0%}",
            f"{at.set_size:.1f}",
            f"{at.lost:.4f}",
        )
    console.print(table)


def show_search(found: "Search", console: Console) -> None:
    """Print designs of one plan's compute, the best first, and what is typed to get each."""
    from isosweep.analysis.simulation.designs import share_interval

    table = Table("", "decided rightly", "falsely", "runs", "problems", "device time", "sweeps")
    lines = []
    for place, (one, tied) in enumerate(zip(found.scored, found.tied, strict=True), start=1):
        right, false = (
            f"{count / one.sweeps:.0%} [{low:.0%}, {high:.0%}]"
            for count in (one.right, one.false)
            for low, high in [share_interval(count, one.sweeps)]
        )
        sign = "=" if tied and place > 1 else ""
        table.add_row(
            f"{place}{sign}",
            right,
            false,
            str(len(one.design.plan.runs)),
            f"{one.design.config.task.num_eval_problems:,}",
            in_hours(one.design.device_hours),
            str(one.sweeps),
        )
        lines.append(f"{place}{sign}: {' '.join(one.design.overrides) or 'the plan itself'}")
    console.print(table)
    console.print(words.line("simulation", "designs", found.truths), soft_wrap=True)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def show_comparison(comparison: "Comparison", console: Console) -> None:
    """Print the best of every sweep at every budget, and its verdict."""
    table = Table(
        "sweep", f"budget ({comparison.unit})", "best n", "B", "reward", "interval", "better"
    )
    for at in comparison.frontiers:
        interval = "" if at.interval is None else f"{at.interval[0]:.3f} to {at.interval[1]:.3f}"
        table.add_row(
            at.entry,
            f"{at.budget:.3g}",
            str(at.best_n),
            str(at.best_batch),
            f"{at.reward:.3f}",
            interval,
            "" if at.better is None else f"{at.better:.0%}",
        )
    console.print(table)
    console.print("better: probability that the best reward lies above the first sweep's")
    for name, verdict in comparison.verdicts.items():
        console.print(f"{name}: {verdict}", markup=False, soft_wrap=True)
