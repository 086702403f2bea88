"""The progress of a sweep: a line for each run that is over, and bars below them on a terminal."""

import math
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rich import progress
from rich.console import Console, RenderableType

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
# Seconds between two schedules of what is left: one of 10,000 runs takes 10 ms.
_SCHEDULED_S = 5.0

Active = Iterable[tuple[PlannedRun, Attempt | None]]


@dataclass(kw_only=True, eq=False)
class _Watched:
    """A run as last read. `share`: of its compute that is behind it, `found` when it was first
    read; `since`: when it became active, by the monotonic clock; `told`: it was over before."""

    run: PlannedRun
    attempt: Attempt | None
    standing: Standing
    share: float
    found: float
    since: float | None = None
    bar: progress.TaskID | None = None
    told: bool = False


class _Bars(progress.Progress):
    """rich's bars with a line below them."""

    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars and the line."""
        return (self.make_tasks_table(self.tasks), self.below)


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
        self._bars = _Bars(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(24),
            progress.TextColumn("{task.percentage:.0f}%"),
            progress.TextColumn("{task.fields[doing]}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=2,
        )
        self._runs: dict[str, _Watched] = {}
        self._drawn, self._silence = 0.0, _SILENCE_S
        self._said = self._looked = time.monotonic()
        # Seconds of running runs, one after the other.
        self._measured_s = 0.0
        # When what is left was scheduled last, and its seconds, predicted and by measured speed.
        self._scheduled, self._left_s = -math.inf, 0.0
        self._speed: float | None = None
        self.extend(plan.runs)

    def extend(self, runs: Iterable[PlannedRun]) -> None:
        """Show further runs, and larger milestones of those that are shown."""
        for run in runs:
            known = self._runs.get(run.run_id)
            if known is not None and known.run.milestones[-1] >= run.milestones[-1]:
                continue
            if known is not None:
                self._leave(known, None)
            new = _Watched(run=run, attempt=None, standing=Standing.NOT_BEGUN, share=0.0, found=0.0)
            self._read(new, newest(self._paths.run(run.run_id)))
            new.found, new.told = new.share, new.standing.ended
            self._runs[run.run_id] = new

    def _read(self, watched: _Watched, attempt: Attempt | None) -> None:
        run, files = watched.run, self._paths.run(watched.run.run_id)
        watched.attempt = attempt
        watched.standing = run_standing(run, attempt, self._unit, self._stop)
        behind = compute_behind(run, files, attempt, self._unit, self._stop)
        watched.share = behind / run.milestones[-1]

    def beginning(self, *, detaches: bool) -> str | None:
        """What is about to be trained and how long that takes; None where nothing is left."""
        left = [each for each in self._runs.values() if each.share < 1]
        return (
            training(len(left), self._places, self._makespan(), detaches=detaches) if left else None
        )

    def update(self, active: Active, failed: Mapping[str, str]) -> None:
        """Say what has changed, and draw at most twice a second; `failed`: the reason by run."""
        now = time.monotonic()
        if self._console.is_terminal and now - self._drawn <= _REDRAW_S:
            return
        going = set[str]()
        for run, attempt in active:
            watched = self._runs[run.run_id]
            going.add(run.run_id)
            if watched.attempt is not attempt:
                self._read(watched, attempt)
            watched.since = now if watched.since is None else watched.since
        for run_id, watched in self._runs.items():
            if run_id not in going:
                self._leave(watched, failed.get(run_id))
        running = [each for each in self._active() if each.standing is Standing.RUNNING]
        self._measured_s += len(running) * (now - self._looked)
        self._looked = now
        if self._console.is_terminal:
            self._draw(running, len(going), len(failed))
            self._drawn = time.monotonic()
        elif now - self._said >= self._silence:
            say(self._console, f"{len(running)} running: {self._summary(len(failed))}")
            self._said, self._silence = now, 2 * self._silence

    def stop(self) -> None:
        """Take the bars off the terminal until the next update."""
        self._bars.stop()

    def _active(self) -> list[_Watched]:
        return [each for each in self._runs.values() if each.since is not None]

    def _leave(self, watched: _Watched, failed: str | None) -> None:
        """Say how a run that was active ended; one that is tried again is not over."""
        if watched.since is None:
            return
        seconds, watched.since = time.monotonic() - watched.since, None
        self._hide(watched)
        self._read(watched, newest(self._paths.run(watched.run.run_id)))
        attempt, standing = watched.attempt, watched.standing
        if watched.told or not (standing.ended or failed is not None):
            return
        watched.told = True
        line = f"{self._counted()} done: {watched.run.label}"
        line += f" to {amount(watched.run.milestones[-1], self._unit)}"
        if attempt is not None and attempt.reward is not None:
            line += f", reward {attempt.reward:.3f}"
        line += f", {duration(seconds)}"
        if standing is not Standing.DONE:
            reason = failed or (attempt and attempt.reason)
            line += f": {standing} ({reason})" if reason else f": {standing}"
        say(self._console, line + self._time_left())
        self._said = time.monotonic()

    def _draw(self, running: list[_Watched], active: int, failed: int) -> None:
        self._bars.start()
        shown = set(running[:_SHOWN])
        for watched in self._active():
            if watched not in shown:
                self._hide(watched)
                continue
            if watched.bar is None:
                watched.bar = self._bars.add_task(watched.run.label, total=1.0, doing="")
            self._bars.update(watched.bar, completed=watched.share, doing=_doing(watched))
        hidden = max(0, len(running) - _SHOWN)
        waits = [f"{hidden} more are running"] * (hidden > 0)
        waits += [f"{active - len(running)} queued"] * (active > len(running))
        self._bars.below = ", ".join([*waits, self._summary(failed)])

    def _hide(self, watched: _Watched) -> None:
        if watched.bar is not None:
            self._bars.remove_task(watched.bar)
            watched.bar = None

    def _counted(self) -> str:
        ended = sum(each.standing.ended for each in self._runs.values())
        return f"{ended}/{len(self._runs)}"

    def _summary(self, failed: int) -> str:
        runs = list(self._runs.values())
        total = sum(each.run.milestones[-1] for each in runs) or 1.0
        done = sum(each.share * each.run.milestones[-1] for each in runs)
        line = f"{self._counted()} runs, {done / total:.0%} of the compute{self._time_left()}"
        diverged = sum(each.standing is Standing.DIVERGED for each in runs)
        warned = sum(bool(each.attempt and each.attempt.warnings) for each in runs)
        for count, word in ((failed, "failed"), (diverged, "diverged"), (warned, "with warnings")):
            line += f", {count} {word}" if count else ""
        return line

    def _makespan(self) -> float:
        """Predicted seconds until the last run's end, if each free place takes the longest one."""
        left = [predicted(each.run.seconds) * (1 - each.share) for each in self._runs.values()]
        return makespan(left, self._places or len(left))

    def seconds_left(self) -> float | None:
        """Seconds until the last run's end, by the speed that was measured; None before any run has
        come forward."""
        if self._looked - self._scheduled >= _SCHEDULED_S or self._speed is None:
            self._scheduled, self._left_s = self._looked, self._makespan()
            came = ((each.share - each.found, each.run.seconds) for each in self._runs.values())
            forward = sum(predicted(seconds) * share for share, seconds in came if share > 0)
            measured = self._measured_s + _PRIOR_S
            self._speed = measured / (forward + _PRIOR_S) if forward else None
        return None if self._speed is None else self._left_s * self._speed

    def _time_left(self) -> str:
        seconds = self.seconds_left()
        return "" if seconds is None else f", about {duration(seconds)} left"


def _doing(watched: _Watched) -> str:
    """Steps, and the newest reward or what the worker does; warnings."""
    attempt = watched.attempt
    step = f"step {of_planned(attempt.step if attempt else 0, watched.run.num_steps)}"
    doing = (attempt and attempt.activity) or "starting"
    if attempt is not None and attempt.reward is not None:
        doing = f"reward {attempt.reward:.3f}"
    return ", ".join([step, doing, *(attempt.warnings if attempt else ())])
