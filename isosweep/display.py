"""What the terminal shows: the plan as a table, and live progress."""

import time
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isosweep.candidates import RULES
from isosweep.config import SweepConfig
from isosweep.paths import SweepPaths
from isosweep.plan import Plan, PlannedRun
from isosweep.scheduling import makespan, makespan_bound
from isosweep.standing import Standing
from isosweep.state import RunState, read_state

if TYPE_CHECKING:
    from isosweep.analysis.compare import Comparison
    from isosweep.analysis.power import Power
    from isosweep.analysis.recommend import Recommendation


def show_plan(
    plan: Plan, config: SweepConfig, standing: Standing, places: int, console: Console
) -> None:
    """Print T and device-hours by n (down) and B (across), what was rejected, and the totals."""
    rules = sorted({rejection.rule for rejection in plan.rejected}, key=RULES.index)
    letters = dict(zip(rules, "abcdefghi", strict=False))
    for axes in plan.axes:
        for budget in plan.budgets:
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
        told = f"{rule} alone keeps out {count} candidates, most of all; the nearest needs {mend}"
        console.print(told, soft_wrap=True)
    console.print(_totals(plan, config, places), soft_wrap=True)
    console.print(standing.described(), soft_wrap=True)


def _plan_table(plan: Plan, budget: float, letters: dict[str, str]) -> Table:
    cells = [cell for cell in plan.cells if cell.budget == budget]
    rejected = [rejection for rejection in plan.rejected if rejection.budget == budget]
    texts = {
        (c.num_generations, c.problems_per_batch): f"{c.num_steps:,}\n{_hours(c.device_hours)}"
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


def _hours(hours: float) -> str:
    """A duration in the unit that reads best."""
    if hours >= 1:
        return f"{hours:,.0f}h" if hours >= 10 else f"{hours:.1f}h"
    return f"{hours * 60:.0f}m" if hours >= 1 / 60 else f"{hours * 3600:.0f}s"


def _totals(plan: Plan, config: SweepConfig, places: int) -> str:
    hardware = config.hardware
    seconds = [run.seconds for run in plan.runs]
    hours = sum(seconds) * hardware.devices_per_run / 3600
    end, bound = makespan(seconds, places) / 3600, makespan_bound(seconds, places) / 3600
    flops = sum(run.planned_flops for run in plan.runs)
    measured = hardware.calibrated_from
    efficiency = f"as measured by {measured}" if measured else "efficiency assumed"
    return (
        f"{len(plan.cells)} cells, {len(plan.rejected)} rejected, {len(plan.runs)} runs; "
        f"{flops:.3g} FLOPs, {plan.sharing:.0%} of training every cell alone\n"
        f"about {_hours(hours)} on {hardware.name} devices ({efficiency}), evaluation "
        f"included; {places} runs at once, longest first, end after {_hours(end)} "
        f"(no schedule before {_hours(bound)})"
    )


def show_power(power: "Power", console: Console) -> None:
    """Print what the analysis made of one simulated world."""
    said = ", ".join(f"{verdict} {share:.0%}" for verdict, share in power.verdicts.items())
    console.print(
        f"world {power.world}, {power.sweeps} sweeps: {said} (true: {power.true_verdict})",
        soft_wrap=True,
    )
    if power.plateau is not None and power.plateau_covered is not None:
        console.print(
            f"saturation, where claimed: interval holds n = {power.plateau:.3g} in "
            f"{power.plateau_covered:.0%}, {power.plateau_width:.1f} doublings wide",
            soft_wrap=True,
        )
    if power.asymptote_covered is not None:
        console.print(
            f"asymptotes: intervals hold the true A in {power.asymptote_covered:.0%} of "
            f"{power.num_asymptotes}, {power.asymptote_width:.3f} wide",
            soft_wrap=True,
        )
    table = Table("budget", "best n", "interval holds", "doublings", "set holds", "n in it", "lost")
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


def show_recommendation(
    split: "Recommendation", unit: str, confidence: float, console: Console
) -> None:
    """Print how to split one budget, and what that rests on."""
    lines = [
        f"budget {split.budget:g} {unit}: n = {split.num_generations}, "
        f"B = {split.problems_per_batch}, T = {split.num_steps}, learning rate "
        f"{split.learning_rate:.3g}, {split.device_hours:.3g} device-hours"
    ]
    if split.reward is not None:
        reward = f"held-out reward: {split.reward:.3f}"
        if split.interval is not None:
            low, high = split.interval
            reward += f" ({confidence:.0%}: {low:.3f} to {high:.3f})"
        if split.base_reward is not None:
            reward += f", {split.base_reward:.3f} before training"
        lines.append(reward)
    if split.best_n is not None:
        low, high = split.best_n.low, split.best_n.high
        lines.append(f"best n ({confidence:.0%}): {low:.3g} to {high:.3g}")
    if split.alternatives:
        others = ", ".join(map(str, split.alternatives))
        lines.append(f"not told apart from it: n = {others}")
    lines.append(f"rests on: {split.rests_on}")
    if split.factor > split.supported * 1.01:
        lines.append(
            f"warning: {split.factor:.3g} times the largest budget; forecasts were checked to "
            f"{split.supported:.3g} times"
        )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def show_comparison(found: "Comparison", console: Console) -> None:
    """Print the best of every sweep at every budget, and its verdict."""
    table = Table("sweep", f"budget ({found.unit})", "best n", "B", "reward", "interval", "better")
    for at in found.frontiers:
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
    for name, verdict in found.verdicts.items():
        console.print(f"{name}: {verdict}", markup=False, soft_wrap=True)


class Progress:
    """One line per running run and a total; silent when the output is not a terminal."""

    def __init__(
        self, plan: Plan, paths: SweepPaths, stop: Collection[str], console: Console
    ) -> None:
        """`stop`: health rules that end a run, which then has nothing left to spend."""
        self._plan = plan
        self._stop = stop
        self._paths = paths
        self._live = Live(console=console, refresh_per_second=2, transient=True)
        self._shown = console.is_terminal
        self._drawn = 0.0
        self._began = time.monotonic()
        self._start: float | None = None

    def __enter__(self) -> "Progress":
        if self._shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._live.stop()

    def update(self, active: Iterable[PlannedRun], failed: int) -> None:
        if self._shown and time.monotonic() - self._drawn > 0.5:
            self._live.update(self._picture(list(active), failed))
            self._drawn = time.monotonic()

    def _picture(self, active: list[PlannedRun], failed: int) -> RenderableType:
        states = {run.run_id: read_state(self._paths.run(run.run_id)) for run in self._plan.runs}
        unit = self._plan.budget_unit
        spent = sum(self._counted(run, states[run.run_id]) for run in self._plan.runs)
        total = sum(run.milestones[-1] for run in self._plan.runs)
        if self._start is None:
            self._start = spent
        elapsed = time.monotonic() - self._began
        rate = (spent - self._start) / elapsed if elapsed > 0 else 0.0
        table = Table.grid(padding=(0, 2))
        for run in active:
            state = states[run.run_id]
            done = self._counted(run, state)
            reward = "" if state is None or state.reward is None else f"{state.reward:.3f}"
            table.add_row(
                _label(run),
                f"step {state.step if state else 0:,}/{run.num_steps:,}",
                f"reward {reward}",
                f"{done:.2e}/{run.milestones[-1]:.2e} {unit}",
                ProgressBar(total=run.milestones[-1], completed=done, width=24),
                Text(", ".join(state.warnings) if state else "", style="yellow"),
            )
        ended = [
            state
            for run in self._plan.runs
            if (state := states[run.run_id]) is not None
            and state.is_done(run.milestones[-1], unit, self._stop)
        ]
        diverged = sum(state.status == "diverged" for state in ended)
        warned = sum(bool(state.warnings) for state in states.values() if state is not None)
        eta = f"ETA {(total - spent) / rate / 60:.1f} min" if rate > 0 else "ETA ..."
        runs = f"{len(ended)}/{len(self._plan.runs)} runs"
        line = f"{runs}, {spent / total:.0%} of the compute, {eta}"
        for count, word in ((failed, "failed"), (diverged, "diverged"), (warned, "with warnings")):
            line += f", {count} {word}" if count else ""
        return Group(table, line)

    def _counted(self, run: PlannedRun, state: RunState | None) -> float:
        """Compute that the run has behind it, all of it where nothing is left to train."""
        last, unit = run.milestones[-1], self._plan.budget_unit
        if state is None:
            return 0.0
        return last if state.ended_by(self._stop) else min(state.compute.spent(unit), last)


def _label(run: PlannedRun) -> str:
    axes = "".join(f" {name.rpartition('.')[2]}={value}" for name, value in run.axes.items())
    return f"n={run.num_generations} B={run.problems_per_batch} seed={run.seed}{axes}"


def show_status(plan: Plan, paths: SweepPaths, stop: Collection[str], console: Console) -> None:
    """Print where every run of a sweep stands; `stop`: health rules that end a run."""
    table = Table("run", "status", "attempt", "step", plan.budget_unit, "held-out", "reason")
    for run in plan.runs:
        state = read_state(paths.run(run.run_id))
        if state is None:
            table.add_row(_label(run), "waiting", "", f"0/{run.num_steps}", "", "", "")
            continue
        reached = state.has_reached(run.milestones[-1], plan.budget_unit)
        status: str = state.status
        if status == "running" and not state.alive():
            status = "dead"
        left = not reached and not state.ended_by(stop)
        if status in ("finished", "diverged") and left:
            status = "to extend"
        table.add_row(
            _label(run),
            status,
            str(state.attempt),
            f"{state.step}/{run.num_steps}",
            f"{state.compute.spent(plan.budget_unit):.3g}/{run.milestones[-1]:.3g}",
            "" if state.reward is None else f"{state.reward:.3f}",
            state.reason or ", ".join(state.warnings),
        )
    console.print(table)
