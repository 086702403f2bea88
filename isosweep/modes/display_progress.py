"""The progress of a sweep on a terminal."""

import time
from collections.abc import Collection, Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isosweep.modes.display import run_label
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import Standing, compute_behind, run_standing
from isosweep.store.paths import SweepPaths
from isosweep.store.state import view_run


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
        """Draw again, at most twice a second; `failed`: runs that have failed."""
        if self._shown and time.monotonic() - self._drawn > 0.5:
            self._live.update(self._picture(list(active), failed))
            self._drawn = time.monotonic()

    def _picture(self, active: list[PlannedRun], failed: int) -> RenderableType:
        views = {run.run_id: view_run(self._paths.run(run.run_id)) for run in self._plan.runs}
        unit = self._plan.budget_unit
        spent = sum(
            compute_behind(run, views[run.run_id], unit, self._stop) for run in self._plan.runs
        )
        total = sum(run.milestones[-1] for run in self._plan.runs)
        if self._start is None:
            self._start = spent
        elapsed = time.monotonic() - self._began
        rate = (spent - self._start) / elapsed if elapsed > 0 else 0.0
        table = Table.grid(padding=(0, 2))
        for run in active:
            view = views[run.run_id]
            state, done = view.state, compute_behind(run, view, unit, self._stop)
            reward = "" if state is None or state.reward is None else f"{state.reward:.3f}"
            table.add_row(
                run_label(run),
                f"step {state.step if state else 0:,}/{run.num_steps:,}",
                f"reward {reward}",
                f"{done:.2e}/{run.milestones[-1]:.2e} {unit}",
                ProgressBar(total=run.milestones[-1], completed=done, width=24),
                Text(", ".join(state.warnings) if state else "", style="yellow"),
            )
        standings = [
            run_standing(run, views[run.run_id], unit, self._stop) for run in self._plan.runs
        ]
        ended = sum(standing.ended for standing in standings)
        diverged = standings.count(Standing.DIVERGED)
        warned = sum(bool(view.state.warnings) for view in views.values() if view.state)
        eta = f"ETA {(total - spent) / rate / 60:.1f} min" if rate > 0 else "ETA ..."
        runs = f"{ended}/{len(self._plan.runs)} runs"
        line = f"{runs}, {spent / total:.0%} of the compute, {eta}"
        for count, word in ((failed, "failed"), (diverged, "diverged"), (warned, "with warnings")):
            line += f", {count} {word}" if count else ""
        return Group(table, line)
