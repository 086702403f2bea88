"""What the terminal shows of a plan and of how far its runs are, as tables."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from isosweep import words
from isosweep.compute import BudgetUnit
from isosweep.config.sweep import SweepConfig
from isosweep.modes.terminal import say
from isosweep.plan.cautions import WARM_UPS
from isosweep.plan.cells import Plan
from isosweep.plan.document import ShortOfWarmup
from isosweep.plan.rules import RULES
from isosweep.plan.scheduling import makespan
from isosweep.plan.standing import PlanStanding
from isosweep.plan.tally import Tally
from isosweep.words.numbers import in_hours


def show_plan(
    plan: Plan, config: SweepConfig, standing: PlanStanding, places: int | None, console: Console
) -> None:
    """Print T and device-hours by n (down) and B (across), what was rejected, and the totals.

    `places`: runs that can be alive at once; None where each has one.
    """
    first = {rejection.rule for rejection in plan.rejected}
    rules = [rule.setting for rule in RULES if rule.setting in first]
    letters = dict(zip(rules, "abcdefghi", strict=False))
    tuned = config.search.kind == "tune"
    # Of a setting that is tuned, hundreds of tables would differ in its value alone.
    for axes in plan.axes[:1] if tuned else plan.axes:
        for budget in plan.budgets[-1:] if tuned else plan.budgets:
            given = "".join(f", {name}={value}" for name, value in axes.items())
            say(console, f"T and device-hours at {budget:g} {plan.budget_unit}{given}")
            console.print(_plan_table(plan.of_axes(axes), budget, letters))
    counts = Counter(rejection.rule for rejection in plan.rejected)
    for rule in rules:
        example = next(r for r in plan.rejected if r.rule == rule)
        say(
            console,
            f"{letters[rule]}: {counts[rule]} rejected by {rule}, e.g. n={example.num_generations} "
            f"B={example.problems_per_batch}: {example.reason}",
        )
    if plan.mends:
        rule, (count, mend) = max(plan.mends.items(), key=lambda item: item[1][0])
        say(
            console,
            f"{rule} alone keeps out {count} candidates, most of all; the nearest needs {mend}",
        )
    say(console, *_totals(plan, config, places))
    counted = Tally.of(standing.runs, standing.collapsed)
    say(console, words.line("plan", "standing", counted, standing.left))


def _plan_table(plan: Plan, budget: float, letters: dict[str, str]) -> Table:
    cells = [cell for cell in plan.cells if cell.budget == budget]
    rejected = [rejection for rejection in plan.rejected if rejection.budget == budget]
    texts = {
        (
            c.num_generations,
            c.problems_per_batch,
        ): f"{c.num_steps:,}\n{in_hours(c.device_hours)}"
        for c in cells
    }
    texts |= {(r.num_generations, r.problems_per_batch): letters[r.rule] for r in rejected}
    table = Table()
    table.add_column("n", justify="right")
    problems = sorted({B for _, B in texts})
    for B in problems:
        table.add_column(f"B={B}", justify="right")
    for n in sorted({n for n, _ in texts}):
        table.add_row(str(n), *(texts.get((n, B), "") for B in problems))
    return table


def _totals(plan: Plan, config: SweepConfig, places: int | None) -> list[str]:
    seconds = [run.seconds for run in plan.runs]
    totals = {
        "flops": sum(run.planned_flops for run in plan.runs),
        "hours": sum(seconds) * config.devices_taken / 3600,
        "places": places,
        "end": makespan(seconds, places or len(seconds)) / 3600,
    }
    return words.lines("plan", "totals", plan, totals, config.hardware)


def described_warmup(short: Sequence[ShortOfWarmup], unit: BudgetUnit) -> Iterator[str]:
    """A line on the cells that are read too soon after warm-up; of grid.axes, on the worst."""
    if short:
        worst = min(short, key=lambda each: each.num_steps / each.warmup_steps)
        yield words.line("plan", "short_of_warmup", worst, len(short), unit, WARM_UPS)
