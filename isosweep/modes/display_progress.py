"""The progress of a sweep: a line for each run that is over, below them on a terminal a picture."""

import time
from collections.abc import Collection, Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isosweep.modes.terminal import say
from isosweep.plan.cells import Plan, PlannedRun, predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.standing import compute_behind, run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import amount, duration, of_planned
from isosweep.words.plan import training

# Runs that a picture shows; the others are counted.
_SHOWN = 20
# Between two pictures.
_REDRAW_S = 0.5
# Seconds after which a silence is broken where there is no picture; the next one is twice as long,
# so that a sweep of days fills no file.
_SILENCE_S = 15.0
# Until runs have come forward by so many predicted seconds, the prediction counts as much as what
# is measured: a run's start-up is over then, as a rule, and its first evaluation.
_PRIOR_S = 60.0
# Between two schedules of what is left, in seconds: one of 10,000 runs takes 10 ms.
_SCHEDULED_S = 5.0

Active = Iterable[tuple[PlannedRun, Attempt | None]]


class Progress:
    """What has come of a plan's runs, told as it changes.

    Every run is read once at the beginning, and once more when it is over; between, what the queue
    has read is shown.
    """

    def __init__(
        self,
        plan: Plan,
        paths: SweepPaths,
        stop: Collection[str],
        console: Console,
        places: int | None = None,
        steps: bool = False,
    ) -> None:
        """`stop`: health rules that end a run, which then has nothing left to spend; `places`: runs
        at once, None: all; `steps`: the runs go as far as a search has asked, which may ask for
        more."""
        self._unit, self._stop, self._paths = plan.budget_unit, stop, paths
        self._console, self._places = console, places
        self._live = Live(console=console, refresh_per_second=2, transient=True)
        self._shown = console.is_terminal
        self._drawn = 0.0
        self._said, self._silence = time.monotonic(), _SILENCE_S
        self._estimate = Estimate(places)
        self._runs: dict[str, PlannedRun] = {}
        self._standings: dict[str, Standing] = {}
        self._behind: dict[str, float] = {}
        self._attempts: dict[str, Attempt | None] = {}
        self._since: dict[str, float] = {}
        self._told: set[str] = set()
        self._steps = steps
        # Steps of a search that are over, of runs that are asked for more since.
        self._before = 0
        self.extend(plan.runs)

    def extend(self, runs: Iterable[PlannedRun]) -> None:
        """Show further runs, and larger milestones of those that are shown: what such a run has
        done is told, and goes on to count."""
        now = time.monotonic()
        for run in runs:
            known = self._runs.get(run.run_id)
            if known is not None:
                if known.milestones[-1] >= run.milestones[-1]:
                    continue
                self._left(run.run_id, None, now - self._since.pop(run.run_id, now))
                self._before += self._has_passed(known)
            self._runs[run.run_id] = run
            self._saw(run, newest(self._paths.run(run.run_id)))
            self._estimate.add(run, self._behind[run.run_id] / run.milestones[-1])
            # What was over before is told by nobody.
            self._told.discard(run.run_id)
            if self._standings[run.run_id].ended:
                self._told.add(run.run_id)

    def _saw(self, run: PlannedRun, attempt: Attempt | None) -> None:
        self._attempts[run.run_id] = attempt
        self._standings[run.run_id] = run_standing(run, attempt, self._unit, self._stop)
        files = self._paths.run(run.run_id)
        self._behind[run.run_id] = compute_behind(run, files, attempt, self._unit, self._stop)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the picture off the terminal until the next update."""
        self._live.stop()

    def beginning(self, *, detaches: bool) -> str | None:
        """What is about to be trained and how long that takes; None where nothing is left."""
        left = self._estimate.left
        if not left:
            return None
        seconds = makespan(left, self._places or len(left))
        return training(len(left), self._places, seconds, detaches=detaches)

    def _left(self, run_id: str, failed: str | None, seconds: float) -> None:
        """A run is active no longer: it is over, or waits to be tried again."""
        run, attempt = self._runs[run_id], newest(self._paths.run(run_id))
        list(self._looked_at([(run, attempt)]))
        standing = self._standings[run_id]
        if not (standing.ended or failed is not None) or run_id in self._told:
            return
        self._told.add(run_id)
        reward = ""
        if attempt is not None and attempt.reward is not None:
            reward = f", reward {attempt.reward:.3f}"
        what = "" if standing is Standing.DONE else f": {standing}"
        reason = failed or (attempt and attempt.reason)
        why = f" ({reason})" if what and reason else ""
        counted, far = f"{self._counted()} done", ""
        if self._steps:
            counted = f"{self._counted()} steps done"
            far = f" to {amount(run.milestones[-1], self._unit)}"
        line = (
            f"{counted}: {run.label}{far}{reward}"
            f", {duration(seconds)}{what}{why}{self._eta(time.monotonic())}"
        )
        say(self._console, line)
        self._said = time.monotonic()

    def _looked_at(self, active: Active) -> Iterable[tuple[str, PlannedRun]]:
        """The active runs of the plan, whose views count from now on."""
        for queued, attempt in active:
            if (run := self._runs.get(queued.run_id)) is None:
                continue
            if self._attempts.get(run.run_id) is not attempt:
                before = self._behind[run.run_id]
                self._saw(run, attempt)
                change = self._behind[run.run_id] - before
                self._estimate.came_forward(run, change / run.milestones[-1])
            yield run.run_id, run

    def _counted(self) -> str:
        ended = sum(standing.ended for standing in self._standings.values())
        return f"{self._before + ended}/{self._before + len(self._runs)}"

    def _eta(self, now: float) -> str:
        seconds = self._estimate.seconds_left(now)
        return "" if seconds is None else f", about {duration(seconds)} left"

    def _has_passed(self, run: PlannedRun) -> bool:
        """Whether the step is over, though the run may be at its next one already."""
        attempt = self._attempts[run.run_id]
        reached = attempt is not None and attempt.compute.has_reached(
            run.milestones[-1], self._unit
        )
        return reached or self._standings[run.run_id].ended

    def update(self, active: Active, failed: Mapping[str, str]) -> None:
        """Tell what has changed, and draw again at most twice a second; `failed`: why, by run."""
        now = time.monotonic()
        if self._shown and now - self._drawn <= _REDRAW_S:
            return
        going = dict(self._looked_at(active))
        for run_id in [run_id for run_id in self._since if run_id not in going]:
            self._left(run_id, failed.get(run_id), now - self._since.pop(run_id))
        for run_id in going:
            self._since.setdefault(run_id, now)
        running = sum(self._standings[run_id] is Standing.RUNNING for run_id in going)
        self._estimate.step(now, running)
        if self._shown:
            self._live.start()
            self._live.update(self._picture(going, len(failed), now))
        elif now - self._said >= self._silence:
            say(self._console, f"{running} running: {self._summary(len(failed), now)}")
            self._said, self._silence = now, 2 * self._silence
        # What that took is not counted, or a slow terminal would draw all the time.
        self._drawn = time.monotonic()

    def _picture(self, going: Mapping[str, PlannedRun], failed: int, now: float) -> RenderableType:
        running = [r for r in going if self._standings[r] is Standing.RUNNING]
        table = Table.grid(padding=(0, 2))
        for run_id in running[:_SHOWN]:
            self._add_row(table, self._runs[run_id])
        more = []
        if len(running) > _SHOWN:
            more.append(f"{len(running) - _SHOWN} more are running")
        if queued := len(going) - len(running):
            more.append(f"{queued} queued")
        return Group(table, *([", ".join(more)] if more else []), self._summary(failed, now))

    def _summary(self, failed: int, now: float) -> str:
        standings = list(self._standings.values())
        warned = sum(bool(each.warnings) for each in self._attempts.values() if each)
        diverged = standings.count(Standing.DIVERGED)
        what = "steps" if self._steps else "runs"
        total = sum(run.milestones[-1] for run in self._runs.values())
        line = f"{self._counted()} {what}, {sum(self._behind.values()) / total:.0%} of the compute"
        line += self._eta(now)
        for count, word in ((failed, "failed"), (diverged, "diverged"), (warned, "with warnings")):
            line += f", {count} {word}" if count else ""
        return line

    def _add_row(self, table: Table, run: PlannedRun) -> None:
        attempt, done = self._attempts[run.run_id], self._behind[run.run_id]
        if attempt is None or attempt.reward is None:
            doing = (attempt and attempt.activity) or "starting"
        else:
            doing = f"reward {attempt.reward:.3f}"
        table.add_row(
            run.label,
            f"step {of_planned(attempt.step if attempt else 0, run.num_steps)}",
            doing,
            f"{done / run.milestones[-1]:.0%}",
            ProgressBar(total=run.milestones[-1], completed=done, width=24),
            Text(", ".join(attempt.warnings) if attempt else "", style="yellow"),
        )


class Estimate:
    """The seconds that are left, from each run's predicted time and the share of it behind it."""

    def __init__(self, places: int | None) -> None:
        """`places`: runs at once; None: all."""
        self._left: dict[str, float] = {}
        self._places = places
        self._predicted = self._measured = 0.0
        self._looked: float | None = None
        self._scheduled = -_SCHEDULED_S
        self._makespan = 0.0

    def add(self, run: PlannedRun, behind: float) -> None:
        """Count a run, of whose compute the share `behind` is spent."""
        self._left[run.run_id] = predicted(run.seconds) * (1 - behind)

    @property
    def left(self) -> list[float]:
        """Predicted seconds that are left of each run that is not over."""
        return [seconds for seconds in self._left.values() if seconds > 0]

    def came_forward(self, run: PlannedRun, share: float) -> None:
        """`share` more of a run's compute is behind it."""
        self._left[run.run_id] = max(0.0, self._left[run.run_id] - predicted(run.seconds) * share)
        self._predicted += max(0.0, predicted(run.seconds) * share)

    def step(self, now: float, running: int) -> None:
        """So many runs have been running since the last step; `now`: in seconds, by any clock."""
        if self._looked is not None:
            self._measured += running * (now - self._looked)
        self._looked = now

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the last run's end, with each free place taking the longest run that is
        left; None before anything has come forward."""
        if self._predicted == 0.0:
            return None
        if now - self._scheduled >= _SCHEDULED_S:
            self._scheduled = now
            self._makespan = makespan(self.left, self._places or len(self._left))
        slower = (self._measured + _PRIOR_S) / (self._predicted + _PRIOR_S)
        return self._makespan * slower
