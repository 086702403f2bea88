"""What the terminal shows of a plan and of how far its runs are, as tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from isosweep.compute import BudgetUnit
from isosweep.config.sweep import SweepConfig
from isosweep.costs.checkpoints import size
from isosweep.plan.cautions import WARM_UPS
from isosweep.plan.cells import Plan
from isosweep.plan.document import CheckpointPlan, ShippedSampling, ShortOfWarmup
from isosweep.plan.rules import RULES
from isosweep.plan.scheduling import makespan, makespan_bound
from isosweep.plan.standing import PlanStanding


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
            console.print(f"T and device-hours at {budget:g} {plan.budget_unit}{given}")
            console.print(_plan_table(plan.of_axes(axes), budget, letters))
    counts = Counter(rejection.rule for rejection in plan.rejected)
    for rule in rules:
        example = next(r for r in plan.rejected if r.rule == rule)
        console.print(
            f"{letters[rule]}: {counts[rule]} rejected by {rule}, e.g. n={example.num_generations} "
            f"B={example.problems_per_batch}: {example.reason}",
            soft_wrap=True,
        )
    if plan.mends:
        rule, (count, mend) = max(plan.mends.items(), key=lambda item: item[1][0])
        line = f"{rule} alone keeps out {count} candidates, most of all; the nearest needs {mend}"
        console.print(line, soft_wrap=True)
    console.print(_totals(plan, config, places), soft_wrap=True)
    console.print(standing.described(), soft_wrap=True)


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


def in_hours(hours: float) -> str:
    """A duration in the unit that reads best."""
    if hours >= 1:
        return f"{hours:,.0f}h" if hours >= 10 else f"{hours:.1f}h"
    return f"{hours * 60:.0f}m" if hours >= 1 / 60 else f"{hours * 3600:.0f}s"


def _totals(plan: Plan, config: SweepConfig, places: int | None) -> str:
    hardware = config.hardware
    seconds = [run.seconds for run in plan.runs]
    hours = sum(seconds) * config.devices_taken / 3600
    at_once = places or len(seconds)
    end, bound = makespan(seconds, at_once) / 3600, makespan_bound(seconds, at_once) / 3600
    flops = sum(run.planned_flops for run in plan.runs)
    measured = hardware.calibrated_from
    efficiency = f"as measured by {measured}" if measured else "efficiency assumed"
    how = f"{hardware.attention} attention{', compiled' if hardware.compile else ''}"
    if hardware.device == "cuda":
        efficiency += f", {how}"
    return (
        f"{len(plan.cells)} cells, {len(plan.rejected)} rejected, {len(plan.runs)} runs; "
        f"{flops:.3g} FLOPs, {plan.sharing:.0%} of training every cell alone\n"
        f"about {in_hours(hours)} of device time on {hardware.name} ({efficiency}), evaluation "
        "included; "
        f"{places or f'all {at_once}'} runs at once, longest first, end after {in_hours(end)} "
        f"(no schedule before {in_hours(bound)})"
    )


def described_checkpoints(plan: CheckpointPlan) -> str:
    """One line: what checkpoints take on the disk."""
    runs = "1 run trains" if plan.runs_at_once == 1 else f"{plan.runs_at_once} runs train"
    return (
        f"checkpoints of {size(plan.largest_bytes)}: at most {size(plan.peak_bytes)} on the disk "
        f"while {runs}, "
        f"{size(plan.kept_bytes)} after the end (checkpoint.keep={plan.keep})"
    )


def described_short_of_warmup(short: Sequence[ShortOfWarmup], unit: BudgetUnit) -> Iterator[str]:
    """A line on the cells that are read too soon after warm-up; of grid.axes, on the worst."""
    if not short:
        return
    worst = min(short, key=lambda each: each.num_steps / each.warmup_steps)
    given = "".join(f", {name}={value}" for name, value in worst.axes.items())
    others = f" (so in {len(short)} combinations of grid.axes)" if len(short) > 1 else ""
    yield (
        f"warm-up takes {worst.warmup_steps} updates, and T is below {WARM_UPS} times that in "
        f"{worst.cells} of {worst.of_cells} cells{given}{others}; the shortest is T = "
        f"{worst.num_steps}, of n = {worst.num_generations}, B = {worst.problems_per_batch} at "
        f"{worst.budget:g} {unit}. Much of them is trained below the full rate: "
        f"recipe.warmup_steps={worst.num_steps // WARM_UPS}, or "
        f"grid.min_steps={WARM_UPS * worst.warmup_steps}"
    )


def described_shipped_sampling(shipped: Iterable[ShippedSampling]) -> Iterator[str]:
    """A line on each model that ships sampling settings."""
    for each in shipped:
        told = ", ".join(f"{name}={value}" for name, value in each.settings.items())
        yield (
            f"the generation_config.json of {each.model} sets {told}: runs do not take it. "
            "Rollouts are sampled by recipe.temperature and recipe.top_p, held-out answers by "
            "evaluation.temperature"
        )
