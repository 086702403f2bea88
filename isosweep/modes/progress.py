"""The progress of a sweep: a line for each run that is over, and bars below them on a terminal."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich import progress
from rich.console import Console

from isosweep.modes.terminal import say
from isosweep.plan.cells import Plan, PlannedRun, predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.standing import compute_behind, run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import amount, duration, of_planned
from isosweep.words.plan import training

# Runs that have a bar; the others are counted.
_SHOWN = 20
# Seconds between two updates of the bars.
_REDRAW_S = 0.5
# Seconds after which a silence is broken where there are no bars; the next one is twice as long, so
# that a sweep of days fills no file.
_SILENCE_S = 15.0
# Until runs have come forward by so many predicted seconds, the prediction counts as much as what
# is measured: a run's start-up is over then, as a rule, and its first evaluation.
_PRIOR_S = 60.0


@dataclass(kw_only=True, eq=False)
class _Row:
    """A run as last read. `share`: of its compute that is behind it, `found` when it was first
    read; `since`: when it became active, by the monotonic clock; `said`: its end has its line."""

    run: PlannedRun
    attempt: Attempt | None = None
    standing: Standing = Standing.NOT_BEGUN
    share: float = 0.0
    found: float = 0.0
    since: float | None = None
    said: bool = False


class Progress:
    """The runs of a sweep as they come forward, as last read by its queue."""

    def __init__(
        self,
        plan: Plan,
        paths: SweepPaths,
        stop: Collection[str],
        console: Console,
        places: int | None = None,
    ) -> None:
        """`stop`: health rules that end a run; `places`: runs at once, None: all."""
        self._unit, self._stop, self._paths = plan.budget_unit, stop, paths
        self._console, self._places = console, places
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(24),
            progress.TextColumn("{task.percentage:.0f}%"),
            progress.TextColumn("{task.fields[doing]}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=2,
        )
        self._all = self._bars.add_task("all", total=1.0, doing="")
        self._tasks: dict[str, progress.TaskID] = {}
        self._rows: dict[str, _Row] = {}
        self._drawn, self._silence = 0.0, _SILENCE_S
        self._said = self._looked = time.monotonic()
        # Seconds of running runs, one after the other.
        self._measured_s = 0.0
        self.extend(plan.runs)

    def extend(self, runs: Iterable[PlannedRun]) -> None:
        """Show further runs, and larger milestones of those that are shown."""
        for run in runs:
            known = self._rows.get(run.run_id)
            if known is not None and known.run.milestones[-1] >= run.milestones[-1]:
                continue
            if known is not None:
                self._leave(known, None)
            row = _Row(run=run)
            self._read(row, newest(self._paths.run(run.run_id)))
            row.found, row.said = row.share, row.standing.ended
            self._rows[run.run_id] = row

    def _read(self, row: _Row, attempt: Attempt | None) -> None:
        run, files = row.run, self._paths.run(row.run.run_id)
        row.attempt = attempt
        row.standing = run_standing(run, attempt, self._unit, self._stop)
        behind = compute_behind(run, files, attempt, self._unit, self._stop)
        row.share = behind / run.milestones[-1]

    def beginning(self, *, detaches: bool) -> str | None:
        """What is about to be trained and how long that takes; None where nothing is left."""
        left = sum(row.share < 1 for row in self._rows.values())
        return training(left, self._places, self._makespan(), detaches=detaches) if left else None

    def update(
        self, active: Iterable[tuple[PlannedRun, Attempt | None]], failed: Mapping[str, str]
    ) -> None:
        """Say what has changed, and draw at most twice a second; `failed`: the reason by run."""
        now = time.monotonic()
        if self._console.is_terminal and now - self._drawn <= _REDRAW_S:
            return
        going = {run.run_id: attempt for run, attempt in active}
        for run_id, row in self._rows.items():
            if run_id not in going:
                self._leave(row, failed.get(run_id))
                continue
            if row.attempt is not going[run_id]:
                self._read(row, going[run_id])
            row.since = now if row.since is None else row.since
        running = [
            row for name, row in self._rows.items() if name in going and row.standing == "running"
        ]
        self._measured_s += len(running) * (now - self._looked)
        self._looked = now
        if self._console.is_terminal:
            self._draw(running[:_SHOWN], self._summary(going, len(running), len(failed)))
            self._drawn = time.monotonic()
        elif now - self._said >= self._silence:
            say(self._console, self._summary(going, len(running), len(failed)))
            self._said, self._silence = now, 2 * self._silence

    def stop(self) -> None:
        """Take the bars off the terminal until the next update."""
        if self._console.is_terminal:
            self._bars.stop()

    def _leave(self, row: _Row, failed: str | None) -> None:
        """Say how a run that was active ended; one that is tried again is not over."""
        if row.since is None:
            return
        seconds, row.since = time.monotonic() - row.since, None
        self._read(row, newest(self._paths.run(row.run.run_id)))
        if row.said or not (row.standing.ended or failed is not None):
            return
        row.said = True
        attempt, end = row.attempt, amount(row.run.milestones[-1], self._unit)
        line = f"{self._counted()} done: {row.run.label} to {end}"
        if attempt is not None and attempt.reward is not None:
            line += f", reward {attempt.reward:.3f}"
        line += f", {duration(seconds)}"
        if row.standing is not Standing.DONE:
            reason = failed or (attempt and attempt.reason)
            line += f": {row.standing} ({reason})" if reason else f": {row.standing}"
        say(self._console, line + self._time_left())
        self._said = time.monotonic()

    def _draw(self, shown: list[_Row], summary: str) -> None:
        self._bars.start()
        for run_id in self._tasks.keys() - {row.run.run_id for row in shown}:
            self._bars.remove_task(self._tasks.pop(run_id))
        for row in shown:
            run_id = row.run.run_id
            if run_id not in self._tasks:
                self._tasks[run_id] = self._bars.add_task(row.run.label, total=1.0, doing="")
            self._bars.update(self._tasks[run_id], completed=row.share, doing=_doing(row))
        self._bars.update(self._all, completed=self._done_share(), doing=summary)

    def _places_taken(self, going: Mapping[str, Attempt | None], running: int) -> str:
        """How many active runs run and wait, and for which other sweeps some are trained."""
        queued = len(going) - running
        line = f"{running} running" + (f", {queued} queued" if queued else "")
        root = self._paths.root
        others = [each.sweep for each in going.values() if each and each.is_of_another(root)]
        if others:
            names = ", ".join(sorted({Path(sweep).name for sweep in others}))
            line += f", {len(others)} of them trained by another sweep ({names})"
        return line

    def _counted(self) -> str:
        ended = sum(row.standing.ended for row in self._rows.values())
        return f"{ended}/{len(self._rows)}"

    def _done_share(self) -> float:
        rows = self._rows.values()
        total = sum(row.run.milestones[-1] for row in rows) or 1.0
        return sum(row.share * row.run.milestones[-1] for row in rows) / total

    def _summary(self, going: Mapping[str, Attempt | None], running: int, failed: int) -> str:
        rows = self._rows.values()
        line = f"{self._places_taken(going, running)}: {self._counted()} runs"
        line += f", {self._done_share():.0%} of the compute"
        line += self._time_left()
        diverged = sum(row.standing is Standing.DIVERGED for row in rows)
        warned = sum(bool(row.attempt and row.attempt.warnings) for row in rows)
        for count, word in ((failed, "failed"), (diverged, "diverged"), (warned, "with warnings")):
            line += f", {count} {word}" if count else ""
        return line

    def _makespan(self) -> float:
        """Predicted seconds until the last run's end, if each free place takes the longest one."""
        left = [predicted(row.run.seconds) * (1 - row.share) for row in self._rows.values()]
        return makespan(left, self._places or len(left))

    def seconds_left(self) -> float | None:
        """Seconds until the last run's end, by the speed that was measured; None before any run has
        come forward."""
        came = sum(
            predicted(row.run.seconds) * max(0.0, row.share - row.found)
            for row in self._rows.values()
        )
        speed = (self._measured_s + _PRIOR_S) / (came + _PRIOR_S)
        return self._makespan() * speed if came else None

    def _time_left(self) -> str:
        seconds = self.seconds_left()
        return f", about {duration(seconds)} left" if seconds else ""


def _doing(row: _Row) -> str:
    """Steps, and the newest reward or what the worker does; warnings."""
    attempt = row.attempt
    step = f"step {of_planned(attempt.step if attempt else 0, row.run.num_steps)}"
    doing = (attempt and attempt.activity) or "starting"
    if attempt is not None and attempt.reward is not None:
        doing = f"reward {attempt.reward:.3f}"
    return ", ".join([step, doing, *(attempt.warnings if attempt else ())])
